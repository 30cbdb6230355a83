"""Takes back what programs changed at guarded places unasked, and puts it there again after a yes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.absent import FileSteps
from agent.events import Event, Noticed
from agent.turns.guarded_changes import guarded_changes, named
from tools.actions import KeepChanges
from tools.context import ToolContext
from tools.results import DeniedError
from tools.safe_text import clean

if TYPE_CHECKING:
    from agent.workspace.checkpoints.entries import Step


class UnaskedChanges:
    """Looks after the steps of one agent's calls."""

    def __init__(self, steps: FileSteps, emit: Callable[[Event], None]) -> None:
        self._steps = steps
        self._emit = emit
        self._allowed: dict[str, list[Path]] = {}
        self._taken: dict[str, Step] = {}
        """By the call: the step that took its changes back."""

    def allow(self, call: str, places: Sequence[Path]) -> None:
        """A person said yes to changes of these places by the call, or by one that its script makes."""
        if places:
            self._allowed.setdefault(call, []).extend(places)

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
        if not found.made:
            return
        taken = await self._steps.move_to(step.number - 1, found.made, f"took back {named(found.made)}")
        if taken is None:
            text = "A program changed what runs something later, and it could not be taken back; look at it: "
            self._emit(Noticed(kind="warning", text=clean(text + named(found.made))))
        else:
            self._taken[call] = taken

    async def settle(self, call: str, tool: str, context: ToolContext, result: str) -> str:
        """Ask whether to keep what was taken back of a call; its result with what became of it."""
        taken = self._taken.pop(call, None)
        if taken is None:
            return result
        paths = [change.path for change in taken.changes]
        shown = named(paths)
        root = Path(taken.root)
        action = KeepChanges(
            tool=tool,
            paths=tuple(root / change.path for change in taken.changes if change.before is not None),
            removes=tuple(root / change.path for change in taken.changes if change.before is None),
        )
        try:
            await context.permit(action)
        except DeniedError as denied:
            text = f"A program changed what runs something later; it was taken back: {shown}."
            self._emit(
                Noticed(kind="warning", text=clean(f"{text} What it wrote is kept: /rewind shows it."))
            )
            return _with_note(
                result,
                f"{shown}: this runs something later, so what the program did there was taken back. {denied} "
                "To change it, use write_file or patch; a person is asked.",
            )
        if await self._steps.move_to(taken.number - 1, paths, f"kept {shown}") is None:
            return _with_note(result, f"{shown}: a person allowed this change, but it could not be put back.")
        return _with_note(
            result, f"{shown}: this runs something later; a person was asked and kept the change."
        )

    async def forgo(self, call: str) -> None:
        """A call was cut off: what was taken back of it stays so, and nobody is asked."""
        self._allowed.pop(call, None)
        if taken := self._taken.pop(call, None):
            text = "A program changed what runs something later; it was taken back: "
            self._emit(
                Noticed(kind="warning", text=clean(text + named([each.path for each in taken.changes])))
            )


def _with_note(result: str, note: str) -> str:
    try:
        data = json.loads(result)
    except (ValueError, RecursionError):
        data = {"result": result}
    if not isinstance(data, dict):
        data = {"result": data}
    data["note"] = " ".join(filter(None, (str(data.get("note") or ""), clean(note))))
    return json.dumps(data, ensure_ascii=False)
