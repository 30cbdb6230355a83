#!/bin/sh
# Codex 0.171.0: the file of a forked session holds nothing of what was said before the fork, only a reference.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
npm install --silent --no-audit --no-fund --prefix "$place" @openai/codex@0.171.0
python3 "$here/ask_agents.py" "$place" <<'PROGRAM'
print(run("codex", "--version").splitlines()[0])
(home / ".codex").mkdir(exist_ok=True)
(home / ".codex" / "config.toml").write_text(
    'model="m"\nmodel_provider="l"\n[model_providers.l]\nname="l"\n'
    f'base_url="{address}/v1"\nwire_api="responses"\n'
)
answers += ["first answer", "second answer"]
run("codex", "exec", "--skip-git-repo-check", "first question")
(original,) = home.glob(".codex/sessions/*/*/*/*.jsonl")
run("codex", "exec", "--skip-git-repo-check", "fork", original.stem[-36:], "second question")
(fork,) = set(home.glob(".codex/sessions/*/*/*/*.jsonl")) - {original}
told = json.dumps(asked[-1]["input"])
print("sent to the model after the fork: first answer", "first answer" in told)
held = fork.read_text()
print("stored in the fork: first answer", "first answer" in held, "- second answer", "second answer" in held)
base = json.loads(held.splitlines()[0])["payload"]["history_base"]
print("history_base:", sorted(base), "of", base["thread_id"] == original.stem[-36:])
print("expected: a session file that can be read by itself")
assert "first answer" in told and "first answer" not in held and "second answer" in held
assert base["thread_id"] == original.stem[-36:] and base["end_ordinal_exclusive"] > 0
PROGRAM
