#!/bin/sh
# fast-agent 0.10.48: a call of its shell is told once over the Agent Client Protocol, as pending and without its
# command. The command runs, the model gets its output, the turn ends, and the call is never heard of again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for python in python3.14 python3.13 python3.12 python3 "$HOME"/.pyenv/versions/3.1[2-4]*/bin/python; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && break
done
"$python" -m venv "$place/env"
"$place/env/bin/pip" install -q fast-agent-mcp==0.10.48
python3 "$here/ask_agents.py" "$place/env" <<'PROGRAM'
answers += ["$ echo done > made.txt", "It is made."]
sent = talk("fast-agent", "acp", "--model", "generic.m", "-x", GENERIC_BASE_URL=f"{address}/v1", GENERIC_API_KEY="k")
updates = [each["params"]["update"] for each in sent if each.get("method") == "session/update"]
calls = [each for each in updates if "toolCallId" in each]
print(run("fast-agent", "--version").strip().splitlines()[-1])
print("told of the call:", [(each["sessionUpdate"], each.get("title"), each.get("status")) for each in calls])
print("made:", (home / "w/made.txt").exists(), "- stop reason:", sent[-1]["result"]["stopReason"])
print("expected: the command, and an update that says completed")
assert [each["status"] for each in calls] == ["pending"] and (home / "w/made.txt").exists()
assert "made.txt" not in json.dumps(calls) and sent[-1]["result"]["stopReason"] == "end_turn"
PROGRAM
