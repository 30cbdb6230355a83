#!/bin/sh
# Cline 3.0.65: over the Agent Client Protocol a refused call is told to have failed before it is told to begin, and
# then ends a second time, all under one id. A client that takes a `tool_call` for a new call counts two.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
npm install --silent --no-audit --no-fund --prefix "$place" cline@3.0.65
python3 "$here/ask_agents.py" "$place" <<'PROGRAM'
print("cline", run("cline", "--version").strip())
answers += ["$ touch no.txt", "It was refused."]
sent = talk("cline", "--acp", refused="touch no.txt", CLINE_API_KEY="k", CLINE_API_BASE_URL=address)
told = []
for each in sent:
    update = each.get("params", {}).get("update", {})
    if "toolCallId" in update:
        told.append((update["sessionUpdate"], update.get("status")))
    elif "permission" in each.get("method", ""):
        told.append(("asks for permission", None))
print(*told, sep="\n")
print("expected: tool_call, permission, then one update that says failed")
order = [kind for kind, _ in told]
assert order.index("tool_call") > told.index(("tool_call_update", "failed"))
assert told.count(("tool_call_update", "failed")) == 2 and order.count("tool_call") == 1
PROGRAM
