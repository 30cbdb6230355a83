#!/bin/sh
# transformers serve 5.19.0: what the model said beside a call vanishes from the conversation.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
python="$place/venv/bin/python"
"$python" -m pip install -q --only-binary=:all: torch==2.13.0 'transformers[serving]==5.19.0' requests==2.34.2
"$python" "$here/ask_transformers.py" "Yes." <<'PROGRAM'
def tokens(said, **more):
    answer = {"role": "assistant", "content": said, **more}
    messages = [{"role": "user", "content": "hi"}, answer, {"role": "user", "content": "And?"}]
    if more:
        messages.insert(2, {"role": "tool", "tool_call_id": "c1", "content": "ok"})
    told = json.loads(post("/v1/chat/completions", {"messages": messages, "max_tokens": 9}))
    return told["usage"]["prompt_tokens"]


call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
said = "The password of the door is 1234. " * 5
alone = tokens(said) - tokens("x")
beside = tokens(said, tool_calls=[call]) - tokens("x", tool_calls=[call])
print("tokens that a longer text adds to the prompt:", alone, "- beside a call:", beside)
print("expected: the same, since chat completions allow text beside calls")
assert alone > 100 and beside == 0
PROGRAM
