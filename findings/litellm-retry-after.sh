#!/bin/sh
# LiteLLM proxy 1.106.12: `retry-after` of a provider reaches the client under another name only.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
python="$place/venv/bin/python"
"$python" -m pip install -q --only-binary=:all: 'litellm[proxy]==1.106.12'
"$python" "$here/ask_litellm.py" hosted_vllm/tiny <<'PROGRAM'
answers.append((429, {"retry-after": "7"}, {"error": {"message": "Too many requests.", "type": "rate_limit"}}))
body = {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
    asked.clear()
    status, headers, text = post(path, body | ({"input": "hi"} if "responses" in path else {}))
    waits = {name: value for name, value in headers.items() if "retry" in name and "after" in name}
    print(path, status, waits)
    if asked:
        assert status == 429 and "retry-after" not in waits, waits
        assert waits.get("llm_provider-retry-after") == "7", waits
    time.sleep(6)
print("expected: retry-after: 7")
PROGRAM
