"""Requests of a running agent of another program to Hermes: permissions and files, through the gate.

What such a program does without a request is not controlled; it runs with the rights of the person.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from acp import RequestError, schema

from tools.context import ToolContext
from tools.effects import Effect, declare_effect
from tools.files.access import Access
from tools.kit.files import make_folders, write_atomically
from tools.results import ToolError
from tools.services.actions import Action, ReadPath, RunCommand, WritePath
from tools.terminal.terminals import Terminals
from tools.text.safe_text import clean

LARGEST = 16_000_000
"""Bytes of a file that is handed over."""
_INTERNAL = -32603


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCall(Action):
    """An action of an agent of another program that is neither a file access nor a command."""

    agent: str
    what: str

    def headline(self) -> str:
        return f"{self.agent}: {self.what}"


ForeignCall.effect = declare_effect(
    Effect(
        name="agent",
        why="is done by a program outside of Hermes, which does what it does unseen",
        subject=lambda action: f"{action.agent}/{action.what}",
        runs_programs=True,
        example=lambda text: ForeignCall(
            tool="delegate_task", agent=text.partition("/")[0], what=text.partition("/")[2]
        ),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignContext:
    """The part of a tool context that access to files needs."""

    workspace: Path
    terminals: Terminals
    options: Mapping[str, Any]
    permit: Callable[[Action], Awaitable[None]]
    """The gate, which also reports what it allowed. Raises `ToolError`."""


class ForeignClient:
    """The editor's side of the protocol. `told` is called with each update."""

    def __init__(self, name: str, context: ForeignContext, told: Callable[[Any], None]) -> None:
        self._name = name
        self._context = context
        self._told = told

    def on_connect(self, conn: Any) -> None:
        """Do nothing, because the caller that started the agent already has the connection."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Pass on an update of the agent's session."""
        self._told(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **_: Any
    ) -> schema.RequestPermissionResponse:
        """Return the gate's decision. An approval is valid for one action, so that the agent asks again."""
        kinds = {each.kind: each.option_id for each in reversed(options)}
        try:
            for action in await asyncio.to_thread(self._actions, tool_call):
                await self._context.permit(action)
            chosen = kinds.get("allow_once")
        except ToolError:
            chosen = kinds.get("reject_once") or kinds.get("reject_always")
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen)
        )

    def _actions(self, call: Any) -> list[Action]:
        """Return the actions that a call declares. Raises `ToolError` for invalid paths."""
        kind, title = getattr(call, "kind", None), clean(str(getattr(call, "title", "") or "something"))
        given = getattr(call, "raw_input", None)
        paths = [
            each.path for each in getattr(call, "content", None) or () if getattr(each, "type", "") == "diff"
        ]
        paths += [each.path for each in getattr(call, "locations", None) or ()]
        tool = self._name
        if kind == "execute":
            command = given.get("command") if isinstance(given, dict) else None
            if isinstance(command, list):
                command = shlex.join(map(str, command))
            text = clean(command) if isinstance(command, str) and command.strip() else title
            return [RunCommand(tool=tool, command=text, cwd=self._context.workspace, outside=True)]
        access = Access(cast("ToolContext", self._context), tool)
        targets = [access.target(path) for path in dict.fromkeys(paths)]
        for path in targets:
            (access.guard.check_read if kind == "read" else access.guard.check_write)(path, access.name(path))
        if kind == "read" and targets:
            return [ReadPath(tool=tool, path=path) for path in targets]
        if kind in ("edit", "delete", "move") and targets:
            return [WritePath(tool=tool, path=path, creates=not path.exists()) for path in targets]
        return [ForeignCall(tool=tool, agent=tool, what=title)]

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> schema.ReadTextFileResponse:
        """Return the text of a file, if the gate allows reading it."""
        try:
            access = await asyncio.to_thread(Access, cast("ToolContext", self._context), self._name)
            place = await asyncio.to_thread(access.target, path)
            await access.permit_read(place)
            text = await asyncio.to_thread(_text, place)
        except (ToolError, OSError, ValueError) as error:
            raise RequestError(_INTERNAL, clean(f"{path} was not read: {error}")) from None
        lines = text.splitlines(keepends=True)
        start = max((line or 1) - 1, 0)
        part = lines[start : None if limit is None else start + limit]
        return schema.ReadTextFileResponse(content="".join(part))

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        """Write a file, if the gate allows it."""
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
