#!/bin/sh
# jupyter-mcp-server 2.2.4: started over stdio where no Jupyter answers, it answers `initialize` after two minutes, and
# then as if nothing had happened. Most clients have given it up by then.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q jupyter-mcp-server==2.2.4
cd "$folder"
"$folder/env/bin/python" - <<'PROGRAM'
import json, os, subprocess, sys, threading, time
from importlib.metadata import version

print("jupyter-mcp-server", version("jupyter-mcp-server"))
command = [os.path.dirname(sys.executable) + "/jupyter-mcp-server", "--jupyter-url", "http://127.0.0.1:9"]
variables = {"PATH": os.environ["PATH"], "HOME": os.getcwd()}
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
child = subprocess.Popen(command, env=variables, text=True, **pipes)
threading.Timer(400, child.kill).start()
params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
began = time.monotonic()
child.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}) + "\n")
child.stdin.flush()
answer = json.loads(child.stdout.readline())
seconds = time.monotonic() - began
print(f"answered after {seconds:.0f} s:", sorted(answer["result"]))
print("expected: at once, or an error")
child.kill()
assert seconds > 100 and "serverInfo" in answer["result"]
os._exit(0)
PROGRAM
