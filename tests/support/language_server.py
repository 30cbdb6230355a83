"""A small language server, which can be told to misbehave: `python language_server.py KIND [PATH …]`.

It finds an error in each line with BAD. Kinds: `good`, `pulled` (answers where it is asked), `crash` (ends
at a change), `flood`, `silent` (never says what it found), `deaf` (never answers), `garbage`, `huge`, `asks`
(asks for things before it publishes), `reaches` (reads and writes the paths it is given, and says what came
of it).
"""

import json
import sys
import time
from pathlib import Path
from typing import Any


def read() -> dict[str, Any]:
    size = 0
    while (line := sys.stdin.buffer.readline().strip()) != b"":
        size = int(line.partition(b":")[2])
    if not size:
        sys.exit(0)
    return json.loads(sys.stdin.buffer.read(size))


def send(**message: Any) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\nContent-Type: x\r\n\r\n" % len(data) + data)
    sys.stdout.buffer.flush()


def answer() -> Any:
    while "result" not in (message := read()):
        pass
    return message["result"]


def found(text: str) -> list[dict[str, Any]]:
    return [
        {
            "range": {"start": {"line": number, "character": line.index("BAD")}, "end": {}},
            "severity": 1,
            "code": "no-bad",
            "source": "small",
            "message": line.strip() + " \x1b[31mis\nbad",
        }
        for number, line in enumerate(text.split("\n"))
        if "BAD" in line
    ] + [{"severity": 3, "message": "a hint"}, "nonsense"]  # type: ignore[list-item]


def reached() -> str:
    said = []
    for path in map(Path, sys.argv[2:]):
        try:
            said.append("read " + path.read_text())
        except OSError:
            said.append("kept from reading")
        try:
            path.write_text("changed")
            said.append("written")
        except OSError:
            said.append("kept from writing")
    return ", ".join(said)


def main(kind: str) -> None:
    texts: dict[str, str] = {}
    while True:
        message = read()
        method, params = message.get("method"), message.get("params") or {}
        if method == "initialize" and kind == "deaf":
            time.sleep(600)
        elif method == "initialize":
            able = {"diagnosticProvider": {}} if kind == "pulled" else {}
            send(id=message["id"], result={"capabilities": able})
        elif method == "shutdown":
            send(id=message["id"], result=None)
        elif method == "exit":
            sys.exit(0)
        elif method == "textDocument/diagnostic":
            send(
                id=message["id"],
                result={"kind": "full", "items": found(texts[params["textDocument"]["uri"]])},
            )
        elif method in ("textDocument/didOpen", "textDocument/didChange"):
            document = params["textDocument"]
            changed = method.endswith("Change")
            text = params["contentChanges"][0]["text"] if changed else document["text"]
            texts[document["uri"]] = text
            items = found(text)
            if kind == "crash" and changed:
                print("it is all too much", file=sys.stderr)
                sys.exit(4)
            elif kind == "garbage":
                sys.stdout.write("Hello! I am a server.\n" * 9_000)
                sys.stdout.flush()
            elif kind == "huge":
                sys.stdout.write("Content-Length: 9000000000\r\n\r\n")
                sys.stdout.flush()
            elif kind == "flood":
                while True:
                    send(method="window/logMessage", params={"message": "x" * 1_000})
            elif kind == "asks":
                send(id=1, method="workspace/configuration", params={"items": [{}, {}]})
                items[0]["message"] = f"configured: {answer()}"
                send(id=2, method="workspace/applyEdit", params={})
                items[0]["message"] += f" {answer()}"
            elif kind == "reaches":
                items[0]["message"] = reached()
            if kind not in ("silent", "pulled"):
                fields = {"uri": document["uri"], "version": document["version"], "diagnostics": items}
                send(method="textDocument/publishDiagnostics", params=fields)


main(sys.argv[1])
