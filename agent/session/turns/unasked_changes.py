"""Takes back what programs changed at guarded places unasked, and puts it there again after a yes.

What git brought from commits that are not the agent's own stays. Where it brought others, or the agent took
what it wrote over into a commit, the whole step goes back: else HEAD, index and work tree would disagree.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.events import Event, Noticed
from agent.session.turns.guarded_changes import guarded_changes, is_link, named
from agent.session.turns.settings_changes import SettingsChanges
from agent.session.wiring.absent import FileSteps
from tools.context import ToolContext
from tools.results import DeniedError
from tools.services.actions import KeepChanges
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.safety.sandbox.repository import SettingsLender
    from agent.workspace.checkpoints.entries import Step
    from agent.workspace.git_origins import GitOrigins


@dataclass(frozen=True, slots=True)
class _Taken:
    """What was taken back of a call."""

    step: Step
    guarded: tuple[str, ...]
    whole: bool
    """Whether all that the call did went back, not the guarded places alone."""

    @property
    def words(self) -> str:
        return "the whole command was taken back" if self.whole else "it was taken back"

    @property
    def told(self) -> str:
        """What happened, for the model."""
        shown = named(self.guarded)
        if not self.whole:
            return f"{shown}: this runs something later, so what the program did there was taken back."
        return (
            f"{shown}: this runs something later, and it comes from commits of this session or from ones of "
            "unknown origin. So the whole command was taken back: HEAD, index and files are as they were "
            "before it, whatever its output and exit code say."
        )

    @property
    def advice(self) -> str:
        if self.whole:
            return "It does not help to run it again; tell the person which commits bring these files."
        return "To change it, use write_file or patch; a person is asked."


class UnaskedChanges:
    """Looks after the steps of one agent's calls."""

    def __init__(
        self,
        steps: FileSteps,
        emit: Callable[[Event], None],
        origins: GitOrigins | None = None,
        lender: SettingsLender | None = None,
    ) -> None:
        self._steps = steps
        self._emit = emit
        self._origins = origins
        had = origins.remotes if origins is not None else lambda _: {}
        self._settings = SettingsChanges(lender, had) if lender is not None else None
        self._allowed: dict[str, list[Path]] = {}
        self._taken: dict[str, _Taken] = {}
        """By the call: what was taken back of it."""

    def allow(self, call: str, places: Sequence[Path]) -> None:
        """A person said yes to changes of these places by the call, or by one that its script makes."""
        if places:
            self._allowed.setdefault(call, []).extend(places)

    async def settle_settings(self, call: str, tool: str, context: ToolContext, result: str) -> str:
        """Take over what a call wrote to settings of git, as far as it may be; its result with that told."""
        if self._settings is None:
            return result
        settled = await self._settings.settle(tool, context)
        self.allow(call, settled.written)
        if settled.refused:
            result = _failed(result)
        return _with_note(result, settled.note) if settled.note else result

    async def take_back(self, step: Step, call: str) -> None:
        """Take back what the step of a call did to guarded places unasked. Never raises."""
        allowed = [
            place
            for each in list(self._allowed)
            if each == call or each.startswith(f"{call}.")
            for place in self._allowed.pop(each)
        ]
        if step.kind != "command":
            return
        found = await asyncio.to_thread(guarded_changes, step, allowed)
        if found.brought:
            text = "What was fetched runs something later where it is opened; look at it first: "
            self._emit(Noticed(kind="warning", text=clean(text + named(found.brought))))
        whole = False
        if found.made and self._origins is not None:
            origins = await self._origins.of(found.changes)
            found, whole = found.without(origins.known), bool(origins.by_git)
        made = found.made
        if not made:
            return
        paths = [change.path for change in step.changes] if whole else made
        taken = await self._steps.move_to(step.number - 1, paths, f"took back {named(made)}")
        if taken is None:
            text = "A program changed what runs something later, and it could not be taken back; look at it: "
            self._emit(Noticed(kind="warning", text=clean(text + named(made))))
        else:
            self._taken[call] = _Taken(taken, made, whole)

    async def settle(self, call: str, tool: str, context: ToolContext, result: str) -> str:
        """Ask whether to keep what was taken back of a call; its result with what became of it."""
        taken = self._taken.pop(call, None)
        if taken is None:
            return result
        step, shown = taken.step, named(taken.guarded)
        root = Path(step.root)
        guarded = [change for change in step.changes if change.path in taken.guarded]
        action = KeepChanges(
            tool=tool,
            paths=tuple(root / change.path for change in guarded if change.before is not None),
            removes=tuple(root / change.path for change in guarded if change.before is None),
            links=tuple(root / each.path for each in guarded if is_link(each.before)),
        )
        try:
            await context.permit(action)
        except DeniedError as denied:
            text = f"A program changed what runs something later; {taken.words}: {shown}."
            self._emit(
                Noticed(kind="warning", text=clean(f"{text} What it wrote is kept: /rewind shows it."))
            )
            return _with_note(result, f"{taken.told} {denied} {taken.advice}")
        paths = [change.path for change in step.changes]
        if await self._steps.move_to(step.number - 1, paths, f"kept {shown}") is None:
            return _with_note(result, f"{shown}: a person allowed this change, but it could not be put back.")
        return _with_note(
            result, f"{shown}: this runs something later; a person was asked and kept the change."
        )

    async def forgo(self, call: str) -> None:
        """A call was cut off: what was taken back of it stays so, and nobody is asked."""
        self._allowed.pop(call, None)
        if taken := self._taken.pop(call, None):
            text = "A program changed what runs something later; it was taken back: "
            self._emit(Noticed(kind="warning", text=clean(text + named(taken.guarded))))


def _failed(result: str) -> str:
    """A result whose exit code does not say that all was done."""
    try:
        data = json.loads(result)
    except (ValueError, RecursionError):
        return result
    if not isinstance(data, dict) or data.get("exit_code") != 0:
        return result
    return json.dumps({**data, "exit_code": 1}, ensure_ascii=False)


def _with_note(result: str, note: str) -> str:
    try:
        data = json.loads(result)
    except (ValueError, RecursionError):
        data = {"result": result}
    if not isinstance(data, dict):
        data = {"result": data}
    data["note"] = " ".join(filter(None, (str(data.get("note") or ""), clean(note))))
    return json.dumps(data, ensure_ascii=False)
