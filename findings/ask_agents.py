"""Runs a program from standard input beside a scripted model, for command-line agents.

`python ask_agents.py PLACE`; PLACE is a folder with `node_modules`, or a virtual environment. The program has
`asked` (bodies of requests), `answers` (what the model says in turn: text, or commands for the shell tool,
each a line that begins with `$ `), `home` (an empty folder with a project `w` in it), `address` (of the
model), `run(*words, **variables)`, which runs a command of the package in the project and gives its output,
and `talk(*words, refused="", **variables)`, which sends one prompt over the Agent Client Protocol to such a
command and gives what it sent; permission is given, except for calls that name `refused`. With
`files=True` it is offered to read through the client, which has no files.
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
bin = bin if bin.exists() else Path(sys.argv[1]) / "bin"


def gemini(text):
    if isinstance(text, dict):  # a call as Gemini has it
        part = {"functionCall": text}
    elif text.startswith("$ "):
        part = {"functionCall": {"name": "run_shell_command", "args": {"command": text[2:]}}}
    else:
        part = {"text": text}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return f"data: {json.dumps({'candidates': [candidate]})}\n\n"


def commands(text):
    return [line.removeprefix("$ ") for line in text.splitlines()] if text.startswith("$ ") else []


def responses(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    items = [{"type": "message", "id": f"msg_{len(asked)}", "role": "assistant", "content": content}]
    for at, command in enumerate(commands(text)):
        given = {"cmd": command, "sandbox_permissions": "require_escalated", "justification": "asked for"}
        call = {"type": "function_call", "id": f"fc_{len(asked)}_{at}", "call_id": f"call_{len(asked)}_{at}"}
        call |= {"name": "exec_command", "arguments": json.dumps(given), "status": "completed"}
        items = [*items[at == 0 :], call]
    response = {"id": f"resp_{len(asked)}", "output": items, "usage": None}
    done = [
        {"type": "response.output_item.done", "output_index": at, "item": item}
        for at, item in enumerate(items)
    ]
    events = [
        {"type": "response.created", "response": {**response, "output": []}},
        *done,
        {"type": "response.completed", "response": response},
    ]
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)


def chat(text, body):
    named = {tool["function"]["name"] for tool in body.get("tools") or []}
    name = next((each for each in ("run_commands", "bash", "execute") if each in named), "")
    calls = []
    for at, command in enumerate(commands(text) if name else []):
        given = {"commands": [command]} if name == "run_commands" else {"command": command}
        function = {"name": name, "arguments": json.dumps(given)}
        calls.append({"index": at, "id": f"call_{len(asked)}_{at}", "type": "function", "function": function})
    delta = {"role": "assistant", "tool_calls": calls} if calls else {"role": "assistant", "content": text}
    head = {"id": f"chat_{len(asked)}", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    ends = [(delta, None), ({}, "tool_calls" if calls else "stop")]
    chunks = [{**head, "choices": [{"index": 0, "delta": each, "finish_reason": why}]} for each, why in ends]
    return "".join(f"data: {json.dumps(each)}\n\n" for each in chunks) + "data: [DONE]\n\n"


class Model(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        asked.append(body)
        text = answers.pop(0) if answers else "nothing left"
        if "contents" in body:
            content = gemini(text).encode()
        else:
            content = (chat(text, body) if "messages" in body else responses(text)).encode()
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


def talk(*words, refused="", files=False, **variables):
    given = {"PATH": f"{bin}:{os.environ['PATH']}", "HOME": str(home), "TERM": "xterm", **variables}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen([str(bin / words[0]), *words[1:]], cwd=home / "w", env=given, text=True, **pipes)
    ending = threading.Timer(240, child.kill)
    ending.start()
    sent = []

    def write(message):
        child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        child.stdin.flush()

    def ask(number, method, params):
        write({"id": number, "method": method, "params": params})
        for line in child.stdout:
            message = json.loads(line)
            sent.append(message)
            if message.get("method") == "session/request_permission":
                kind = "reject_once" if refused and refused in line else "allow_once"
                (option,) = [each for each in message["params"]["options"] if each["kind"] == kind]
                outcome = {"outcome": "selected", "optionId": option["optionId"]}
                write({"id": message["id"], "result": {"outcome": outcome}})
            elif message.get("method") == "fs/read_text_file":
                error = {"code": -32002, "message": "Resource not found", "data": message["params"]}
                write({"id": message["id"], "error": error})
            elif message.get("id") == number and "method" not in message:
                return message
        raise SystemExit("it ended before it answered")

    abilities = {"fs": {"readTextFile": True, "writeTextFile": False}} if files else {}
    ask(1, "initialize", {"protocolVersion": 1, "clientCapabilities": abilities})
    session = ask(2, "session/new", {"cwd": str(home / "w"), "mcpServers": []})["result"]
    if any(each["id"] == "read-only" for each in session.get("modes", {}).get("availableModes", [])):
        ask(3, "session/set_mode", {"sessionId": session["sessionId"], "modeId": "read-only"})
    prompt = [{"type": "text", "text": "Do it."}]
    ask(4, "session/prompt", {"sessionId": session["sessionId"], "prompt": prompt})
    child.stdin.close()
    child.terminate()
    child.wait()
    ending.cancel()
    return sent


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    home = Path(folder)
    (home / "w").mkdir()
    exec(compile(program, "<program>", "exec"))
