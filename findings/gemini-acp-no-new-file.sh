#!/bin/sh
# Gemini CLI 0.61.0: over the Agent Client Protocol it makes no new file for a client that offers to read files. The
# client's answer that there is no such file comes as a plain object, and the text that it looks for is not found in it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
npm install --silent --no-audit --no-fund --prefix "$place" @google/gemini-cli@0.61.0
python3 "$here/ask_agents.py" "$place" <<'PROGRAM'
(home / ".gemini").mkdir()
(home / ".gemini/settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
variables = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": address, "GEMINI_CLI_NO_RELAUNCH": "1"}
command = ("gemini", "--acp", "--skip-trust", "-m", "gemini-2.5-pro")
print("gemini", run("gemini", "--version").strip())
new = home / "w/new.txt"
for files in (False, True):
    answers[:] = [{"name": "write_file", "args": {"file_path": str(new), "content": "one\n"}}, "Over."]
    sent = talk(*command, files=files, **variables)
    updates = [each["params"]["update"] for each in sent if each.get("method") == "session/update"]
    ends = [each.get("status") for each in updates if each["sessionUpdate"] == "tool_call_update"]
    print("client reads files:", files, "- the call ends as", ends[-1:], "- file there:", new.exists())
    assert new.exists() is not files
    new.unlink(missing_ok=True)
print("expected: the file in both cases")
PROGRAM
