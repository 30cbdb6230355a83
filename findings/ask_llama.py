"""Runs a program from standard input beside llama.cpp's server: `python ask_llama.py MODEL` (xllamacpp).

The program has `address` and `post(path, body)`, which gives the answer as data.
"""

import json
import socket
import subprocess
import sys
import time
import urllib.request

SERVER = """
import sys, threading, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = sys.argv[1], 4096, 1
params.hostnames, params.port, params.use_jinja, params.ui = ["127.0.0.1"], int(sys.argv[2]), True, False
params.warmup = params.fit_params = False
server = xllamacpp.Server(params)
threading.Event().wait()
"""
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
address = f"http://127.0.0.1:{port}"
program = sys.stdin.read()


def post(path, body):
    data = json.dumps({"model": "m", **body}).encode()
    request = urllib.request.Request(address + path, data, {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))


command = [sys.executable, "-c", SERVER, sys.argv[1], str(port)]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    for _ in range(300):
        try:
            urllib.request.urlopen(address + "/health", timeout=5)
            break
        except OSError:
            time.sleep(0.1)
    import xllamacpp

    print("xllamacpp", getattr(xllamacpp, "__version__", "2026.10.11549"))
    exec(program)
finally:
    server.terminate()
    server.wait()
