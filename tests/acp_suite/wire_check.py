"""Every line that an agent writes, held against the official schema of the protocol.

The schema is that of npm `@agentclientprotocol/sdk` 2.4.0 (`schema/v1/schema.json`, Apache-2.0), without its
descriptions; `python -m tests.acp_suite --schema FILE` takes the original.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

OFFICIAL = Path(__file__).with_name("schema.json")
UNSTABLE = {"session/fork": "NewSessionResponse"}
"""Methods that the stable schema does not have yet, and the definition that their result has there."""
PLACE = "https://agentclientprotocol.com/schema"


class WireCheck:
    """Reads both directions of a connection. `wrong` is what does not hold, a sentence each."""

    def __init__(self, schema: Path = OFFICIAL) -> None:
        whole = json.loads(schema.read_text("utf-8"))
        definitions = whole["$defs"]
        resource = Resource.from_contents({**whole, "$id": PLACE})
        registry: Any = Registry().with_resource(PLACE, resource)
        self._check = {
            name: Draft202012Validator({"$ref": f"{PLACE}#/$defs/{name}"}, registry=registry)
            for name in definitions
        }
        # The original says beside each definition which method it belongs to; the names tell as well.
        self._results = {**RESULTS, **UNSTABLE}
        self._asked: dict[str, str] = {}
        self.wrong: list[str] = []
        self.lines = 0
        self.kinds: Counter[str] = Counter()

    def sent(self, line: bytes) -> None:
        """A line from the client to the agent."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if isinstance(message, dict) and "method" in message and "id" in message:
            self._asked[json.dumps(message["id"])] = str(message["method"])

    def heard(self, line: bytes) -> None:
        """A line from the agent to the client."""
        self.lines += 1
        if what := self._problem(line):
            self.wrong.append(f"{what}: {line[:400]!r}")

    def _problem(self, line: bytes) -> str:
        """What is wrong with a line of the agent; empty where nothing is."""
        try:
            message = json.loads(line.decode(), parse_constant=_no_constant)
        except ValueError as error:
            return f"a line is not JSON in UTF-8 ({error})"
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return "a message does not say jsonrpc 2.0"
        if "method" in message:
            return self._called(message)
        if "id" not in message or ("result" in message) == ("error" in message):
            return "a response has not exactly one of result and error"
        if "error" in message:
            self.kinds["error"] += 1
            return self._against("Error", message["error"])
        method = self._asked.get(json.dumps(message["id"]), "")
        if not method:
            return "a response answers nothing that was asked"
        self.kinds[method] += 1
        return self._against(self._results[method], message["result"]) if method in self._results else ""

    def _called(self, message: dict[str, Any]) -> str:
        method = str(message["method"])
        self.kinds[method] += 1
        if method.startswith(("_", "$/")):
            return ""
        name = CALLS.get(method)
        if name is None:
            return f"the method {method} is unknown"
        if name.endswith("Notification") == ("id" in message):
            return f"{method} has an id and should not, or the other way round"
        return self._against(name, message.get("params"))

    def _against(self, name: str, value: Any) -> str:
        error = next(self._check[name].iter_errors(value), None)
        return "" if error is None else f"{name}: {error.message[:300]} at {error.json_path}"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


RESULTS = {
    "initialize": "InitializeResponse",
    "authenticate": "AuthenticateResponse",
    "logout": "LogoutResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/delete": "DeleteSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/close": "CloseSessionResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
    "session/prompt": "PromptResponse",
}
"""What answers each method."""
CALLS = {
    "session/update": "SessionNotification",
    "session/request_permission": "RequestPermissionRequest",
    "fs/read_text_file": "ReadTextFileRequest",
    "fs/write_text_file": "WriteTextFileRequest",
    "terminal/create": "CreateTerminalRequest",
    "terminal/output": "TerminalOutputRequest",
    "terminal/release": "ReleaseTerminalRequest",
    "terminal/wait_for_exit": "WaitForTerminalExitRequest",
    "terminal/kill": "KillTerminalRequest",
    "elicitation/create": "CreateElicitationRequest",
    "elicitation/complete": "CompleteElicitationNotification",
}
"""What an agent may ask and tell."""
