"""Requests of a running agent of another program to Hermes: permissions and files, through the gate.

What such a program does without a request is not controlled; it runs with the rights of the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from acp import RequestError, schema

from agent.safety.rules import Verdict
from agent.session.subagents.foreign_calls import CallFields, ForeignCallRecord, call_actions
from tools.context import ToolContext
from tools.files.access import Access
from tools.kit.files import make_folders, write_atomically
from tools.results import ToolError
from tools.services.actions import Action
from tools.terminal.terminals import Terminals
from tools.text.safe_text import clean

LARGEST = 16_000_000
"""The maximum size in bytes of a file that the agent can read."""
MOST_VIEWS = 8
"""The maximum number of differing views of one request that are checked."""
_INTERNAL = -32603


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignContext:
    """The part of a tool context that is needed for access to files."""

    workspace: Path
    terminals: Terminals
    options: Mapping[str, Any]
    permit: Callable[[Action], Awaitable[None]]
    """The gate, which also reports what it allows. Raises `ToolError` for an action that is not allowed."""
    decide: Callable[[Action], Verdict]
    """Returns the gate's verdict without asking the user. Reads the disk."""

    def service(self, _kind: type[Terminals]) -> Terminals:
        """Return the terminals, the only service that is needed for access to files."""
        return self.terminals


class CallListener(Protocol):
    """An object that receives what the agent reports about its work."""

    def take_update(self, update: Any) -> None:
        """Handle one update of the agent's session."""
        ...

    def ask(self, call: Any) -> ForeignCallRecord:
        """Return the call that a request for permission is about."""
        ...

    def refuse(self, call: ForeignCallRecord) -> None:
        """Record that a request about a call was refused."""
        ...


class ForeignClient:
    """The client side of the Agent Client Protocol. `listener` receives each update and request."""

    def __init__(self, name: str, context: ForeignContext, listener: CallListener) -> None:
        self._name = name
        self._context = context
        self._listener = listener

    def on_connect(self, conn: Any) -> None:
        """Do nothing, because the caller that started the agent already has the connection."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Pass an update of the agent's session to the listener."""
        self._listener.take_update(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        """Return the gate's decision. An approval is valid for one action, so that the agent asks again."""
        kinds = {each.kind: each.option_id for each in reversed(options)}
        call, asked = self._listener.ask(tool_call), CallFields.of(tool_call)
        try:
            # Reports that arrive while the user decides count too.
            permitted: list[CallFields] = []
            while new := [each for each in call.views(asked) if each not in permitted]:
                permitted += new
                if len(permitted) > MOST_VIEWS:
                    raise ToolError("It says something else about the call each time.")
                await self._permit(new)
            chosen = kinds.get("allow_once")
            call.judged = asked.over(call.said)
        except ToolError as error:
            self._listener.refuse(call)
            is_cancelled = error.extra.get("outcome") == "cancelled"
            chosen = None if is_cancelled else kinds.get("reject_once") or kinds.get("reject_always")
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen)
        )

    async def _permit(self, views: Sequence[CallFields]) -> None:
        """Ask the gate for all actions of a call in all views. Raises `ToolError` if one is refused."""

        def prepare() -> tuple[Sequence[Action], Sequence[Action]]:
            access = Access(cast("ToolContext", self._context), self._name)
            found = call_actions(views, access, self._name, self._context.workspace)
            every = (*found.hinted, *found.needed)
            denied = [each for each in every if self._context.decide(each).kind in ("deny", "hardline")]
            return denied, found.needed

        denied, needed = await asyncio.to_thread(prepare)
        for action in (*denied, *needed):  # nobody is asked about what is denied in part
            await self._context.permit(action)

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> schema.ReadTextFileResponse:
        """Return the text of a file, or `limit` lines from `line` on. Raises `RequestError`."""
        try:
            access = await asyncio.to_thread(Access, cast("ToolContext", self._context), self._name)
            place = await asyncio.to_thread(access.target, path)
            await access.permit_read(place)
            text = await asyncio.to_thread(_text, place)
        except FileNotFoundError:
            raise RequestError.resource_not_found(path) from None  # with it Qwen makes a new file
        except (ToolError, OSError, ValueError) as error:
            raise RequestError(_INTERNAL, clean(f"{path} was not read: {error}")) from None
        lines = text.splitlines(keepends=True)
        start = max((line or 1) - 1, 0)
        part = lines[start : None if limit is None else start + limit]
        return schema.ReadTextFileResponse(content="".join(part))

    async def _no_terminal(self, **_: Any) -> Any:
        """Refuse terminals with `RequestError`; otherwise the package would answer with an empty result."""
        raise RequestError.method_not_found("terminal")

    create_terminal = terminal_output = wait_for_terminal_exit = kill_terminal = release_terminal = (
        _no_terminal
    )

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        """Write a file, if the gate allows it. Raises `RequestError`."""
        try:
            access = await asyncio.to_thread(Access, cast("ToolContext", self._context), self._name)
            place = await asyncio.to_thread(access.target, path)
            await access.permit_write(place, creates=not place.exists())
            await asyncio.to_thread(_write, place, content)
        except (ToolError, OSError, ValueError) as error:
            raise RequestError(_INTERNAL, clean(f"{path} was not written: {error}")) from None


def _text(path: Path) -> str:
    if path.stat().st_size > LARGEST:
        raise ToolError(f"it has more than {LARGEST // 1_000_000} MB")
    return path.read_text("utf-8")


def _write(path: Path, content: str) -> None:
    make_folders(path.parent)
    write_atomically(path, content.encode(), for_person=True)
