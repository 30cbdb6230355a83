#!/bin/sh
# Gemini CLI 0.61.0: a resume sends the result of a call twice, and a command that failed is stored as a success.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
npm install --silent --no-audit --no-fund --prefix "$place" node@24 @google/gemini-cli@0.61.0
python3 "$here/ask_agents.py" "$place" <<'PROGRAM'
print("gemini-cli", run("gemini", "--version").strip())
(home / ".gemini").mkdir(exist_ok=True)
settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
(home / ".gemini" / "settings.json").write_text(json.dumps(settings))
variables = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": address, "GEMINI_CLI_NO_RELAUNCH": "1"}
words = ("gemini", "--skip-trust", "-y", "-m", "gemini-2.5-pro")
answers += ["$ cat missing-file", "it is missing", "second answer", "third answer"]
run(*words, "-p", "first", **variables)
run(*words, "-r", "latest", "-p", "second", **variables)
run(*words, "-r", "latest", "-p", "third", **variables)
counts = []
for body in asked:
    parts = [part for content in body["contents"] for part in content["parts"]]
    counts.append(sum("functionResponse" in part for part in parts))
print("results sent with each of the four requests, of one call:", counts)
stored = [line for path in home.glob(".gemini/tmp/*/chats/*.jsonl") for line in path.open() if "toolCalls" in line]
status = json.loads(stored[0])["toolCalls"][0]
print("stored status of a command with exit code 1:", status["status"])
print("expected: 0, 1, 1, 1, and an error")
assert counts[:3] == [0, 1, 2], counts
assert status["status"] == "success" and "Exit Code: 1" in json.dumps(status["result"])
PROGRAM
