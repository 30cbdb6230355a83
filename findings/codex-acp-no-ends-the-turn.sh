#!/bin/sh
# codex-acp 2.6.0 (Codex 0.166.0): the only answer of the kind `reject_once` ends the whole turn as `cancelled`. The
# model is not told of the refusal, and the call beside it, which was allowed, is not carried out.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
npm install --silent --no-audit --no-fund --prefix "$place" @agentclientprotocol/codex-acp@2.6.0 @openai/codex@0.166.0
python3 "$here/ask_agents.py" "$place" <<'PROGRAM'
(home / ".codex").mkdir()
(home / ".codex" / "config.toml").write_text(
    'model="m"\nmodel_provider="l"\n[model_providers.l]\nname="l"\n'
    f'base_url="{address}/v1"\nwire_api="responses"\n'
)
answers += ["$ touch no.txt\n$ touch yes.txt", "I do something else."]
sent = talk("codex-acp", refused="touch no.txt", OPENAI_API_KEY="k")
print(next(each["result"]["agentInfo"] for each in sent if each.get("id") == 1))
options = next(each["params"]["options"] for each in sent if "permission" in each.get("method", ""))
print("answers offered:", [(each["name"], each["kind"]) for each in options])
print("stop reason:", sent[-1]["result"]["stopReason"], "- requests to the model:", len(asked))
print("made:", sorted(each.name for each in (home / "w").iterdir()))
print("expected: reject_once refuses one call, of which the model is told")
assert sent[-1]["result"]["stopReason"] == "cancelled" and len(asked) == 1
assert [each["kind"] for each in options].count("reject_once") == 1
assert not (home / "w/yes.txt").exists()
PROGRAM
