"""Runs a program from standard input between a scripted upstream and the LiteLLM proxy (litellm[proxy]).

`python ask_litellm.py MODEL`; MODEL is called as LiteLLM calls it, such as `deepseek/deepseek-chat`. The
program has `asked` (paths and bodies that came to the upstream), `answers` (a list of `(status, headers,
body)` that the upstream gives in turn, the last one for ever) and `post(path, body)`, which gives status,
headers and text of the proxy's answer.
"""

import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

asked, answers = [], []
program = sys.stdin.read()


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        asked.append((self.path, body))
        status, headers, answer = answers.pop(0) if len(answers) > 1 else answers[0]
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
threading.Thread(target=upstream.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{upstream.server_port}"
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]


def post(path, body, **headers):
    data = json.dumps({"model": "m", **body}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer sk-proxy"} | headers
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        answer = error
    told = {name.lower(): value for name, value in answer.headers.items()}
    return answer.status, told, answer.read().decode()


with tempfile.TemporaryDirectory() as folder:
    where = base if sys.argv[1].startswith("anthropic/") else base + "/v1"
    parameters = {"model": sys.argv[1], "api_base": where, "api_key": "none"}
    config = {
        "model_list": [{"model_name": "m", "litellm_params": parameters}],
        "general_settings": {"master_key": "sk-proxy"},
        "litellm_settings": {"num_retries": 0},
    }
    path = Path(folder) / "config.yaml"
    path.write_text(json.dumps(config))
    command = [str(Path(sys.executable).with_name("litellm")), "--config", str(path)]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    environ = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    quiet = subprocess.DEVNULL
    proxy = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environ)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5)
                break
            except OSError:
                time.sleep(0.2)
        from importlib.metadata import version

        print("litellm", version("litellm"))
        exec(program)
    finally:
        proxy.terminate()
        proxy.wait()
