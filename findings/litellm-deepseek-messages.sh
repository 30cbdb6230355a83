#!/bin/sh
# LiteLLM proxy 1.106.12: one model at one address of one's own, and two places that requests go to.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
python="$place/venv/bin/python"
"$python" -m pip install -q --only-binary=:all: 'litellm[proxy]==1.106.12'
"$python" "$here/ask_litellm.py" deepseek/deepseek-chat <<'PROGRAM'
answers.append((400, {}, {"error": {"message": "no", "type": "invalid_request_error"}}))
for path in ("/v1/chat/completions", "/v1/messages"):
    post(path, {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]})
print("api_base:", base + "/v1")
for path, came in zip(("chat completions", "Messages"), asked):
    print(f"a request in {path} goes to", came[0])
print("expected: below api_base both times, as for every other kind of provider")
assert [each[0] for each in asked] == ["/v1/chat/completions", "/anthropic/v1/messages"], asked
PROGRAM
