#!/bin/sh
# llama.cpp's server (xllamacpp 2026.10.11549): events of the Responses API carry no numbers, so that the
# helper of the openai package (3.57.0) that puts a stream together cannot read a single one.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
python="$place/venv/bin/python"
"$python" -m pip install -q --only-binary=:all: xllamacpp==2026.10.11549 gguf==0.19.0 openai==3.57.0
"$python" "$here/tiny_gguf.py" "$place/tiny.gguf"
"$python" "$here/ask_llama.py" "$place/tiny.gguf" <<'PROGRAM'
import openai

client = openai.OpenAI(base_url=address + "/v1", api_key="none")
events = list(client.responses.create(model="m", input="hi", max_output_tokens=8, stream=True))
deltas = [each.model_dump() for each in events if each.type == "response.output_text.delta"]
print("openai", openai.__version__, "- events:", len(events), "- of text:", len(deltas))
print("a delta:", {name: value for name, value in deltas[0].items() if value is not None})
try:
    with client.responses.stream(model="m", input="hi", max_output_tokens=8) as stream:
        helper = "text: " + "".join(each.delta for each in stream if each.type == "response.output_text.delta")
except Exception as error:
    helper = f"{type(error).__name__}: {error}"
print("client.responses.stream:", helper)
print("expected: output_index and sequence_number in each event, and the text from the helper")
assert deltas and all(each.get("output_index") is None for each in deltas)
assert all(each.get("sequence_number") is None for each in deltas)
assert helper.startswith("TypeError")
PROGRAM
