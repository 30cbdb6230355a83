"""A model for the dialogues: what it does is decided by the first word of a conversation."""

from __future__ import annotations

import json
from typing import Any

from tests.support.replies import Reply, by_step, call, calls, refuse, say

WRITES = call("write_file", path="new.txt", content="one\ntwo\n")
MAKES = call("terminal", command="touch made.txt")
SCRIPTS: dict[str, list[Reply]] = {
    "greet": [say("Hi."), say("Hi again."), say("And again.")],
    "plan": [
        call("todo_write", todos=[{"id": "1", "content": "Write it", "status": "in_progress"}]),
        say("Planned."),
    ],
    "read": [call("read_file", path="there.txt"), say("Read.")],
    "write": [WRITES, say("Written."), say("Again."), say("Once more."), say("And more.")],
    "change": [
        call("patch", mode="replace", path="there.txt", old_string="first", new_string="second"),
        say("Changed."),
    ],
    "echo": [call("terminal", command="echo out; sleep 0.3; exit 3"), say("Ran.")],
    "make": [MAKES, call("terminal", command="touch made.txt more.txt"), say("Made.")],
    "again": [calls(("terminal", {"command": "touch made.txt"})), MAKES, say("Made.")],
    "sleep": [call("terminal", command="echo begun; sleep 60"), say("never")],
    "long": [say("word " * 4_000)],
    "ask": [
        call("clarify", question="Which?", choices=["red", "blue"], allow_freetext=False),
        say("Thanks."),
    ],
    "whoami": [call("clarify", question="What name?"), say("Thanks.")],
    "fail": [refuse(401, "no such key")],
    "look": [say("Seen.")],
    "server": [call("mcp__suite__echo", text="said"), say("Done.")],
}
"""What the model does, by that word."""


def script(request: Any) -> Any:
    """The reply to a request."""
    asked = next(each for each in request.messages if each.get("role") == "user")
    words = json.dumps(asked["content"])
    word = next((name for name in SCRIPTS if f'"{name}' in words), "greet")
    return by_step([*SCRIPTS[word], *[say("No more.")] * 40])(request)
