#!/bin/sh
# fast-agent-acp 0.10.48, which only starts fast-agent, is a wheel without a module: its command cannot start. The
# package that it depends on brings a command of the same name that works, and one of the two overwrites the other.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for python in python3.14 python3.13 python3.12 python3 "$HOME"/.pyenv/versions/3.1[2-4]*/bin/python; do
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && break
done
"$python" -m venv "$place/env"
"$place/env/bin/pip" install -q fast-agent-acp==0.10.48
"$place/env/bin/python" -c "
from importlib.metadata import distribution
for name in ('fast-agent-acp', 'fast-agent-mcp'):
    one = distribution(name)
    modules = [each for each in one.files if each.suffix == '.py']
    starts = {each.name: each.value for each in one.entry_points}['fast-agent-acp']
    print(one.name, one.version, '- modules:', len(modules), '- the command fast-agent-acp starts', starts)
    assert bool(modules) == (name == 'fast-agent-mcp')
"
"$place/env/bin/pip" install -q --force-reinstall --no-deps fast-agent-acp==0.10.48
if "$place/env/bin/fast-agent-acp" --help >"$place/said" 2>&1; then echo "it starts: this has changed"; exit 1; fi
tail -1 "$place/said"
grep -q "No module named 'fast_agent_acp'" "$place/said"
