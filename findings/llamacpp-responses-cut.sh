#!/bin/sh
# llama.cpp's server (xllamacpp 2026.10.11549): a reply cut at the limit is `completed` in the Responses API.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
python="$place/venv/bin/python"
"$python" -m pip install -q --only-binary=:all: xllamacpp==2026.10.11549 gguf==0.19.0
"$python" "$here/tiny_gguf.py" "$place/tiny.gguf"
"$python" "$here/ask_llama.py" "$place/tiny.gguf" <<'PROGRAM'
chat = post("/v1/chat/completions", {"max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]})
messages = post("/v1/messages", {"max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]})
responses = post("/v1/responses", {"max_output_tokens": 8, "input": "hi"})
print("chat completions:", chat["choices"][0]["finish_reason"])
print("Messages:        ", messages["stop_reason"])
print("Responses:       ", responses["status"], responses.get("incomplete_details"), responses["usage"])
print("expected: Responses says incomplete, with max_output_tokens as the reason, as the others do")
assert chat["choices"][0]["finish_reason"] == "length" and messages["stop_reason"] == "max_tokens"
assert responses["status"] == "completed" and responses["usage"]["output_tokens"] == 8
assert not responses.get("incomplete_details")
PROGRAM
