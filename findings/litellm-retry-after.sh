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
found = {}
for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
    said = {"input": "hi"} if "responses" in path else {"messages": [{"role": "user", "content": "hi"}]}
    asked.clear()
    status, headers, text = post(path, {"max_tokens": 9, **said})
    found[path] = {name: value for name, value in headers.items() if "retry" in name and "after" in name}
    print(path, status, found[path], "- asked upstream:", len(asked))
    time.sleep(6)
print("expected: retry-after: 7 each time, as the provider said")
assert found["/v1/chat/completions"] == {"llm_provider-retry-after": "7"}, found
assert found["/v1/messages"] == {}, found
assert found["/v1/responses"] == {"llm_provider-retry-after": "7"}, found
PROGRAM
