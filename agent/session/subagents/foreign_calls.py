"""Tool calls of an agent of another program: what it reports about each, and the actions to be permitted.

A request for permission may leave out what was reported before under the same id. Where both give a field and
differ, the gate checks both.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tools.effects import Effect, declare_effect
from tools.files.access import Access
from tools.services.actions import Action, DeletePath, Fetch, ReadPath, RunCommand, WritePath
from tools.text.safe_text import clean

_COMMANDS = ("command", "cmd", "script")
_PATHS = (
    *("path", "file_path", "filePath", "absolute_path", "notebook_path", "filename"),
    *("old_path", "new_path", "source", "destination"),
)
_CWDS = ("cwd", "workdir", "working_directory")
_WRITING = ("edit", "delete", "move")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCall(Action):
    """An action of an agent of another program that is neither a file access nor a command."""

    agent: str
    what: str
    unknown: bool = False
    """True if only the title is known, so that no rule can tell what the action does."""

    def headline(self) -> str:
        return f"{self.agent}: {self.what}"


ForeignCall.effect = declare_effect(
    Effect(
        name="agent",
        why="is done by a program outside of Hermes, which does what it does unseen",
        subject=lambda action: f"{action.agent}/{action.what}",
        runs_programs=True,
        is_unclear=lambda action: action.unknown,
        example=lambda text: ForeignCall(
            tool="delegate_task", agent=text.partition("/")[0], what=text.partition("/")[2]
        ),
    )
)


@dataclass(frozen=True, slots=True)
class CallFields:
    """What an agent reports about one call. A field that it did not give is empty."""

    kind: str = ""
    title: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the call."""
    changes: tuple[str, ...] = ()
    """Paths of the changes that the report shows."""
    places: tuple[str, ...] = ()

    @classmethod
    def of(cls, call: Any) -> CallFields:
        """Return the fields of a call, an update or a permission request of the protocol."""
        given = getattr(call, "raw_input", None)
        content = getattr(call, "content", None) or ()
        texts = [
            getattr(each.content, "text", "") for each in content if getattr(each, "type", "") == "content"
        ]
        if not given and texts:
            given = _arguments(texts[0])
        return cls(
            str(getattr(call, "kind", None) or ""),
            clean(str(getattr(call, "title", None) or "")),
            given if isinstance(given, dict) else {},
            tuple(each.path for each in content if getattr(each, "type", "") == "diff"),
            tuple(each.path for each in getattr(call, "locations", None) or ()),
        )

    def over(self, other: CallFields) -> CallFields:
        """Return these fields, with missing ones filled in from `other`. Arguments are merged by name."""
        names = [each.name for each in fields(self) if each.name != "given"]
        kept = {name: getattr(self, name) or getattr(other, name) for name in names}
        return CallFields(given={**other.given, **self.given}, **kept)

    def command(self) -> str:
        """Return the command line in the arguments; empty if there is none."""
        if self.kind not in ("", "other", "execute") or (self.kind != "execute" and self._paths()):
            return ""
        # Cline gives several command lines at once.
        given = self.given
        if isinstance(lines := given.get("commands"), list) and lines:
            given = {"command": "\n".join(map(str, lines)), **given}
        for name in _COMMANDS:
            match given.get(name):
                case str(text) if text.strip():
                    return clean(text)
                case [_, *_] as words:
                    return clean(shlex.join(map(str, words)))
        return ""

    def subject(self) -> str:
        """Return a short description: the command, the title, or `something`."""
        return self.command() or self.title or "something"

    def _paths(self) -> list[str]:
        return [path for name in _PATHS if isinstance(path := self.given.get(name), str) and path]

    def paths(self) -> list[str]:
        """Return all paths that the call names, each once."""
        return list(dict.fromkeys((*self.changes, *self.places, *self._paths())))

    def cwd(self, workspace: Path) -> Path:
        """Return the folder in which its command runs."""
        named = next((each for name in _CWDS if isinstance(each := self.given.get(name), str) and each), "")
        return workspace / named if "\0" not in named else workspace


def _arguments(text: str) -> Any:
    """Return the arguments in a call's text: JSON (Kimi), or a command after `$` (Hermes Agent); or None."""
    if text.startswith("$ "):
        return {"command": text[2:]}
    try:
        return json.loads(text) if text.startswith("{") else None
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class CallActions:
    """The actions of a call: each of `needed` must be permitted, and none of `hinted` may be forbidden."""

    needed: tuple[Action, ...]
    hinted: tuple[Action, ...] = ()


def call_actions(views: Iterable[CallFields], access: Access, agent: str, workspace: Path) -> CallActions:
    """Return the actions of a call, combined from several views of its fields.

    Reads the disk. Raises `ToolError` for invalid paths and for those that are never accessed.
    """
    needed: dict[Action, None] = {}
    hinted: dict[Action, None] = {}
    for view in views:
        found = _actions(view, access, agent, workspace)
        needed.update(dict.fromkeys(found.needed))
        hinted.update(dict.fromkeys(found.hinted))
    return CallActions(tuple(needed), tuple(each for each in hinted if each not in needed))


def _actions(call: CallFields, access: Access, agent: str, workspace: Path) -> CallActions:
    if command := call.command():
        run = RunCommand(tool=agent, command=command, cwd=call.cwd(workspace), outside=True)
        return CallActions((run,))
    reads = call.kind in ("read", "search")
    targets = [] if call.kind == "execute" else [access.target(path) for path in call.paths()]
    for path in targets:
        (access.guard.check_read if reads else access.guard.check_write)(path, access.name(path))
    files: tuple[Action, ...]
    if reads:
        files = tuple(ReadPath(tool=agent, path=path) for path in targets)
    elif call.kind == "delete":
        files = tuple(DeletePath(tool=agent, path=path) for path in targets)
    else:
        files = tuple(WritePath(tool=agent, path=path, creates=not path.exists()) for path in targets)
    if files and (call.kind == "read" or call.kind in _WRITING):
        return CallActions(files)
    # A title is what the agent says of itself: it may forbid a call, and allows none.
    unknown = not targets and (call.kind == "execute" or not call.given)
    hinted: list[Action] = [*files]
    if call.title and unknown:
        hinted.append(RunCommand(tool=agent, command=call.title, cwd=workspace, outside=True))
    if isinstance(url := call.given.get("url"), str) and url:
        hinted.append(Fetch(tool=agent, url=clean(url)))
    asked = ForeignCall(tool=agent, agent=agent, what=call.subject(), unknown=unknown)
    return CallActions((asked,), tuple(hinted))


@dataclass(slots=True)
class ForeignCallRecord:
    """One open call: all that was reported about it, and how its requests were answered."""

    id: str
    """The id of the call, unique in the turn, unlike the agent's own id."""
    said: CallFields
    began: float
    judged: CallFields = CallFields()
    """The fields for which permission was last given."""
    shown: CallFields = CallFields()
    is_shown: bool = False
    is_refused: bool = False

    def views(self, asked: CallFields) -> list[CallFields]:
        """Return the views of a request to be checked: its own fields, combined with earlier ones."""
        earlier = [each for each in (self.said, self.judged) if each != CallFields()]
        found = [each for one in earlier for each in (asked.over(one), one.over(asked))]
        return [each for at, each in enumerate(found or [asked]) if each not in found[:at]]


class ForeignCalls:
    """The open calls of one turn, by the agent's ids. The id of an ended call may be used again."""

    def __init__(self) -> None:
        self._open: dict[str, ForeignCallRecord] = {}
        self._used: dict[str, int] = {}

    def get(self, id: str) -> ForeignCallRecord | None:
        """Return the open call with this id; None if there is none."""
        return self._open.get(id)

    def was_told(self, id: str) -> bool:
        """Return whether a call with this id was ever begun."""
        return clean(id)[:100] in self._used

    def add(self, id: str, said: CallFields, began: float) -> ForeignCallRecord:
        """Add an open call, and return it."""
        name = clean(id)[:100]
        number = self._used[name] = self._used.get(name, 0) + 1
        record = ForeignCallRecord(name if number == 1 else f"{name}#{number}", said, began)
        self._open[id] = record
        return record

    def end(self, id: str) -> ForeignCallRecord | None:
        """Remove and return an open call; None if there is none."""
        return self._open.pop(id, None)

    def all(self) -> list[str]:
        """Return the ids of the open calls."""
        return list(self._open)
