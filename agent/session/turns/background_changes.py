"""Guarded places that programs in the background changed after their call: taken back at the next look.

A look is made before the next program runs, when a process in the background has ended, and when the session
closes. What was read-only to a process when it started is no work of its own: somebody else changed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.session.turns.guarded_changes import guarded_changes, named
from tools.services.actions import Action, RunCommand, RunScript, SendInput
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.workspace.checkpoints.entries import Step
    from agent.workspace.checkpoints.recorder import StepRecorder
    from tools.terminal.terminals import Terminals

_PROGRAMS = (RunCommand, RunScript, SendInput)
_WHO = "While a program ran in the background, it or somebody else changed what runs something later"


class BackgroundChanges:
    """Looks after the processes that the agents of one workspace have in the background.

    `closed` gives the places that are read-only to programs now; None where nothing can be, and then changes
    are only told. `tell` receives a sentence for the person and the model.
    """

    def __init__(
        self,
        steps: StepRecorder,
        terminals: Terminals,
        closed: Callable[[], Sequence[Path] | None],
        tell: Callable[[str], None],
    ) -> None:
        self._steps = steps
        self._line = steps.store.line(steps.line)
        self._terminals = terminals
        self._closed = closed
        self._tell = tell
        self._judged = 0
        self._looking = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        terminals.background_ended = self._ended

    async def acting(self, call: str, action: Action) -> None:
        """A call is about to do this: before a program runs, what others left is taken back."""
        if isinstance(action, _PROGRAMS):
            await self.look()

    async def look(self) -> None:
        """Take back what programs in the background did at guarded places since the last look."""
        async with self._looking:
            run = self._terminals.in_background()
            # While a program of a call runs, whatever changes is put down to that call.
            if run is None or not await self._steps.catch_up():
                return
            steps = await asyncio.to_thread(self._line.steps)
            fresh = [each for each in steps if each.created > run.since]
            for number, paths in (await asyncio.to_thread(self._suspects, fresh)).items():
                await self._take_back(number, paths)
            self._judged = self._steps.position
            self._terminals.looked_at(run)

    async def aclose(self) -> None:
        """Look a last time: once nothing runs any more, and while steps are still kept."""
        self._terminals.background_ended = lambda: None
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.look()

    def _suspects(self, steps: Sequence[Step]) -> dict[int, list[str]]:
        """Paths to be taken back, by the number of the first step that changed them."""
        root, closed = self._steps.root, self._closed()
        made = {change.path for step in steps for change in step.changes if change.before is None}
        kept = [each for each in closed or () if not _lies_in(each, root, made)]
        found: dict[str, int] = {}
        for step in steps:
            if step.kind == "outside" and step.number > self._judged:
                for path in guarded_changes(step).made:
                    if not any((root / path).is_relative_to(each) for each in kept):
                        found.setdefault(path, step.number)
        return {number: [path for path in found if found[path] == number] for number in found.values()}

    async def _take_back(self, number: int, paths: Sequence[str]) -> None:
        shown = named(paths)
        if self._closed() is None:
            self._tell(clean(f"{_WHO}; look at it: {shown}."))
        elif await self._steps.move_to(number - 1, paths, f"took back {shown}") is None:
            self._tell(clean(f"{_WHO}, and it could not be taken back; look at it: {shown}."))
        else:
            kept = "What was written is kept: /rewind shows it."
            self._tell(clean(f"{_WHO}; it was taken back: {shown}. {kept}"))

    def _ended(self) -> None:
        task = asyncio.ensure_future(self.look())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _lies_in(place: Path, root: Path, made: set[str]) -> bool:
    """Whether a place was made since, itself or a folder around it: then it was open to who ran before."""
    if not place.is_relative_to(root):
        return False
    parts = place.relative_to(root).parts
    return any("/".join(parts[:count]) in made for count in range(1, len(parts) + 1))
