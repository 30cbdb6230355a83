#!/bin/sh
# OpenCode 1.18.33: `opencode run "two words"` sends the prompt with quotation marks around it, and stores it so;
# `opencode run word` sends it as it was given.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
npm install --silent --no-audit --no-fund --prefix "$place" node@24 opencode-ai@1.18.33
python3 "$here/ask_agents.py" "$place" <<'PROGRAM'
print("opencode", run("opencode", "--version").strip())
options = {"baseURL": f"{address}/v1", "apiKey": "k"}
provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"name": "m"}}}
config = {"provider": {"local": provider}, "model": "local/m", "small_model": "local/m", "autoupdate": False}
(home / ".config" / "opencode").mkdir(parents=True, exist_ok=True)
(home / ".config" / "opencode" / "opencode.json").write_text(json.dumps(config))
sent = []
for words in (["word"], ["two words"], ["two", "words"], ['say "hi" twice']):
    asked.clear()
    run("opencode", "run", *words, OPENCODE_DISABLE_MODELS_FETCH="1")
    said = [body["messages"][-1]["content"] for body in asked if body.get("tools")]
    sent += said
    print("given", words, "sent", said)
print("expected: each as it was given, with blanks between words")
assert sent == ["word", '"two words"', "two words", '"say \\"hi\\" twice"'], sent
PROGRAM
