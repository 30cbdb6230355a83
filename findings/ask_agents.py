"""Runs a program from standard input beside a scripted model, for command-line agents.

`python ask_agents.py PLACE`; PLACE is a folder with `node_modules`. The program has `asked` (bodies of
requests), `answers` (what the model says in turn: text, or a command for the shell tool after `$ `), `home`
(an empty folder with a project `w` in it), `address` (of the model) and `run(*words, **variables)`, which
runs a command of the package in the project and gives its output.
"""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

asked, answers = [], []
program = sys.stdin.read()
bin = Path(sys.argv[1]) / "node_modules" / ".bin"


def gemini(text):
    command = text.removeprefix("$ ")
    call = {"functionCall": {"name": "run_shell_command", "args": {"command": command}}}
    part = call if text != command else {"text": text}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return f"data: {json.dumps({'candidates': [candidate]})}\n\n"


def responses(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": f"msg_{len(asked)}", "role": "assistant", "content": content}
    response = {"id": f"resp_{len(asked)}", "output": [item], "usage": None}
    events = [
        {"type": "response.created", "response": {**response, "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)


class Model(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        asked.append(body)
        text = answers.pop(0) if answers else "nothing left"
        content = (gemini(text) if "contents" in body else responses(text)).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"


def run(*words, **variables):
    given = {"PATH": f"{bin}:{os.environ['PATH']}", "HOME": str(home), "TERM": "xterm", **variables}
    done = subprocess.run(
        [str(bin / words[0]), *words[1:]],
        cwd=home / "w",
        env=given,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
    )
    return done.stdout + done.stderr


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    home = Path(folder)
    (home / "w").mkdir()
    exec(compile(program, "<program>", "exec"))
