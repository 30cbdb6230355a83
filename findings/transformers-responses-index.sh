#!/bin/sh
# transformers serve 5.19.0: in a Responses stream with calls, two items have one output_index, the
# numbers begin at 1, and a message without any text is put behind the calls and, in the end, before them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
python="$place/venv/bin/python"
"$python" -m pip install -q --only-binary=:all: torch==2.13.0 'transformers[serving]==5.19.0' requests==2.34.2
call='<tool_call>{"name": "look", "arguments": {}}</tool_call>'
"$python" "$here/ask_transformers.py" "$call$call" <<'PROGRAM'
tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
text = post("/v1/responses", {"input": "hi", "stream": True, "tools": [tool], "max_output_tokens": 200})
came = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
items = [each for each in came if each["type"] == "response.output_item.added"]
found = [(each["output_index"], each["item"]["type"]) for each in items]
print("output_index of each item:", found)
print("in the whole response:", [each["type"] for each in came[-1]["response"]["output"]])
print("expected: 0 and 1 for the two calls, the same order in the whole response, and no empty message")
assert [each[1] for each in found] == ["function_call", "function_call", "message"], found
assert len({each[0] for each in found}) < len(found), found
PROGRAM
