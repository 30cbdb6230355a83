"""An editor that speaks with a real `hermes acp`, through the client of the protocol's own package.

Every message that Hermes writes is held against the schema of the package: read, written again, it
must be the same, as what the schema does not know or cannot read is left out in silence.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import schema
from acp.client.connection import ClientSideConnection

from tests.acp_suite.wire_check import WireCheck
from tests.support.command import HERMES, environment
from tests.support.model_server import ModelServer

RESULTS: Mapping[str, type[Any]] = {
    "initialize": schema.InitializeResponse,
    "authenticate": schema.AuthenticateResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/close": schema.CloseSessionResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_mode": schema.SetSessionModeResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}
CALLS: Mapping[str, type[Any]] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "terminal/create": schema.CreateTerminalRequest,
    "terminal/wait_for_exit": schema.WaitForTerminalExitRequest,
    "terminal/release": schema.ReleaseTerminalRequest,
    "elicitation/create": schema.CreateFormSessionElicitationRequest,
}


@dataclass
class Editor:
    """The side of the editor. `choose` is which option it takes when asked; None cancels."""

    choose: Callable[[list[schema.PermissionOption]], str | None] = lambda options: options[0].option_id
    updates: list[tuple[str, Any]] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    forms: list[Any] = field(default_factory=list)
    answer: str = ""
    """What forms are filled with."""
    wrong: list[str] = field(default_factory=list)
    """Messages that do not hold against the schema."""
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    agent: Any = None
    process: Any = None
    held: asyncio.Event | None = None
    """Permissions wait for it, if it is there."""
    buffers: dict[str, str] = field(default_factory=dict)
    """Text of files as the editor has it, where that is not what is on the disk."""
    stuck: set[str] = field(default_factory=set)
    """Files whose text it saves, and continues telling the old one of."""
    before_reading: Callable[[], None] = lambda: None
    """What the person does just before it tells a text."""
    terminals: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    """What ran in terminals of the editor: what it showed, and how it ended."""
    released: set[str] = field(default_factory=set)
    running: dict[str, Any] = field(default_factory=dict)
    check: WireCheck = field(default_factory=WireCheck)
    """Holds each message against the official schema."""
    _sent: dict[Any, str] = field(default_factory=dict)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self.heard.set()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append((session_id, tool_call, options))
        self.heard.set()
        if self.held is not None:
            await self.held.wait()
        chosen = self.choose(options)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append((message, mode))
        return schema.AcceptElicitationResponse(action="accept", content={"answer": self.answer})

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> schema.ReadTextFileResponse:
        self.before_reading()
        text = self.buffers.get(path)
        return schema.ReadTextFileResponse(content=Path(path).read_text() if text is None else text)

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        if path not in self.stuck:
            self.buffers[path] = content
        Path(path).write_text(content)

    async def create_terminal(
        self, session_id: str, command: str, args: list[str] | None = None, cwd: str | None = None, **_: Any
    ) -> schema.CreateTerminalResponse:
        started = await asyncio.create_subprocess_exec(
            command, *(args or ()), cwd=cwd, stdout=asyncio.subprocess.PIPE
        )
        name = f"terminal-{len(self.running)}"
        self.running[name] = started
        return schema.CreateTerminalResponse(terminal_id=name)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> schema.WaitForTerminalExitResponse:
        shown, _rest = await self.running[terminal_id].communicate()
        code = self.running[terminal_id].returncode
        self.terminals[terminal_id] = (shown, code)
        return schema.WaitForTerminalExitResponse(exit_code=code)

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        self.released.add(terminal_id)

    async def delete(self, session: str) -> Any:
        """Delete a session; the package has no call for it yet."""
        return await self.agent._conn.send_request("session/delete", {"sessionId": session})

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    def said(self, session: str, kind: str = "agent_message_chunk") -> str:
        """Words of one kind in a session, put together."""
        return "".join(each.content.text for each in self.of(session, kind))

    def of(self, session: str, kind: str) -> list[Any]:
        """Updates of one kind in a session."""
        return [each for name, each in self.updates if name == session and each.session_update == kind]

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until something was heard."""

        async def look() -> None:
            while not condition():
                self.heard.clear()
                await self.heard.wait()

        try:
            await asyncio.wait_for(look(), 60)
        except TimeoutError:
            raise AssertionError(f"waited for {what}; heard {self.updates[-5:]}") from None

    def observe(self, event: Any) -> None:
        """Hold a message of Hermes against the schema."""
        message = event.message
        line = json.dumps(message).encode()
        (self.check.sent if event.direction.value == "outgoing" else self.check.heard)(line)
        if event.direction.value == "outgoing":
            if "id" in message and "method" in message:
                self._sent[message["id"]] = message["method"]
            return
        method = message.get("method")
        if method is not None:
            self._hold(CALLS[method], message["params"])
        elif "result" in message and (known := RESULTS.get(self._sent.get(message["id"], ""))) is not None:
            self._hold(known, message["result"])

    def _hold(self, model: type[Any], payload: Any) -> None:
        read = model.model_validate(payload).model_dump(mode="json", by_alias=True, exclude_unset=True)
        if json.dumps(read, sort_keys=True) != json.dumps(payload, sort_keys=True):
            self.wrong.append(f"{model.__name__}: {payload}")


def line_reader(process: asyncio.subprocess.Process, noise: list[bytes]) -> asyncio.StreamReader:
    """The lines of a process, those that are not JSON kept apart."""
    passed = asyncio.StreamReader(limit=1 << 26)

    async def pump() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            try:
                json.loads(line)
            except ValueError:
                noise.append(line)
            passed.feed_data(line)
        passed.feed_eof()

    setattr(passed, "pump", asyncio.create_task(pump()))  # noqa: B010 - kept as long as the reader
    return passed


@asynccontextmanager
async def editor(
    folder: Path,
    script: Any,
    *,
    config: str = "",
    model: bool = True,
    capabilities: schema.ClientCapabilities | None = None,
    **environ: str,
) -> AsyncIterator[Editor]:
    """An editor with a Hermes of its own, initialized. The process has to end by itself, with 0."""
    home, work = folder / "home", folder / "work"
    home.mkdir(mode=0o700, exist_ok=True)
    work.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(f"sandbox:\n  mode: 'off'\n{config}", encoding="utf-8")
    async with ModelServer(script) as server:
        base = server.base_url if model else ""
        process = await asyncio.create_subprocess_exec(
            *HERMES,
            "acp",
            env=environment(home, base, **environ),
            cwd=work,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=1 << 26,
        )
        assert process.stdin is not None and process.stderr is not None
        noise: list[bytes] = []
        there = Editor(process=process)
        connection = ClientSideConnection(
            there,  # type: ignore[arg-type]
            process.stdin,
            line_reader(process, noise),
            observers=[there.observe],
            use_unstable_protocol=True,
        )
        there.agent = connection
        try:
            await connection.initialize(1, client_capabilities=capabilities or schema.ClientCapabilities())
            yield there
            if process.returncode is None:
                process.stdin.close()
            code = await asyncio.wait_for(process.wait(), 60)
            errors = (await process.stderr.read()).decode()
            assert (code, errors, noise, there.wrong, there.check.wrong) == (0, "", [], [], [])
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            await connection.close()
