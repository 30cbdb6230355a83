"""An agent of another program that plays what a file says, in the protocol's own words over its pipes.

Started as `python foreign_script.py FILE`. FILE holds a list of steps for a prompt: `["tell", UPDATE]`,
`["ask", CALL]` and `["send", METHOD, PARAMS]` (requests, whose answers are waited for), `["exit", CODE]`,
`["fail", CODE, TEXT]`, `["wait", SECONDS]` and `["answer", FIELDS]`; `["modes", MODES]` are those of its
session, `["offered"]` notes the client's abilities. What came back for each request, and each mode that is
set, is added to FILE.log as a line of JSON.
"""

import json
import os
import sys
import time
from pathlib import Path

FILE = sys.argv[1]
OPTIONS = [
    {"optionId": "ever", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
OFFERED = {}
numbers = iter(range(100, 10_000))


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(what):
    with Path(f"{FILE}.log").open("a") as log:
        log.write(json.dumps(what) + "\n")


def request(method, params):
    number = next(numbers)
    send(id=number, method=method, params={"sessionId": "theirs", **params})
    for line in sys.stdin:
        answer = json.loads(line)
        if answer.get("id") == number and "method" not in answer:
            note(answer.get("result", answer.get("error")))
            return


def play(id):
    for step, *given in json.loads(Path(FILE).read_text()):
        if step == "tell":
            send(method="session/update", params={"sessionId": "theirs", "update": given[0]})
        elif step == "ask":
            request("session/request_permission", {"toolCall": given[0], "options": OPTIONS})
        elif step == "send":
            request(*given)
        elif step == "exit":
            os._exit(given[0])
        elif step == "fail":
            send(id=id, error={"code": given[0], "message": given[1]})
        elif step == "offered":
            note(OFFERED)
        elif step == "wait":
            time.sleep(given[0])
        elif step == "answer":
            send(id=id, result={"stopReason": "end_turn", **given[0]})


for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            OFFERED.update(message["params"].get("clientCapabilities", {}))
            send(id=message["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
        case "session/new":
            modes = [given[0] for step, *given in json.loads(Path(FILE).read_text()) if step == "modes"]
            send(id=message["id"], result={"sessionId": "theirs", "modes": modes[0] if modes else None})
        case "session/set_mode":
            note(message["params"])
            send(id=message["id"], result={})
        case "session/prompt":
            play(message["id"])
