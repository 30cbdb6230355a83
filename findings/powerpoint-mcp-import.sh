#!/bin/sh
# office-powerpoint-mcp-server 2.0.7 takes any mcp from 1.3 on; with mcp 2 it cannot start, as that renamed what it
# imports. A fresh installation, as uvx or pip makes it, has mcp 2.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q office-powerpoint-mcp-server==2.0.7 mcp==2.3.0
"$folder/env/bin/python" -c "
from importlib.metadata import requires
print('asks for', [each for each in requires('office-powerpoint-mcp-server') if each.startswith('mcp')])"
if "$folder/env/bin/ppt_mcp_server" </dev/null >"$folder/said" 2>&1; then echo "it starts: this has changed"; exit 1; fi
grep -o "No module named 'mcp.server.fastmcp'" "$folder/said" | head -1
