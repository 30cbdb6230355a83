"""The checkpoints of a session as the agent may use them: names for places, looking back, taking files back.

A name is the label of a node, so a person sees it in the timeline, and a label a
person wrote is a name as well. Where others changed a file since, theirs stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from agent.core.store.marks import NodeMark
from agent.errors import HermesError
from agent.session.conversation.live_session import LiveSession
from agent.session.export.patch import Patch, patch_between
from agent.workspace.checkpoints.entries import PathChange, Step
from agent.workspace.checkpoints.git_words import step_names
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.hunk_restore import numbered, parted
from agent.workspace.checkpoints.restore.plan import RestorePlan, check_position, inside, plan_back
from agent.workspace.checkpoints.restore.ref_plan import Choice
from tools.results import ToolError
from tools.services.checkpoints import FileStep, PermitBack, PointList, SavedPoint, SinceThen, TakenBack
from tools.text.safe_text import clean
from tools.text.words import one_line

T = TypeVar("T")

LISTED = 20
"""Steps a list shows."""


class CheckpointHistory(Protocol):
    """What the service needs to know of the conversation."""

    async def position_of(self, node: int | None) -> int:
        """Where the files stood at a node."""
        ...

    async def branch(self, name: str) -> str:
        """Leave a branch of that name behind; a sentence about it. Raises `HermesError`."""
        ...


class CheckpointService:
    """The protocol `tools.context.Checkpoints` for one session. `history` is asked for when it is needed."""

    def __init__(
        self, session: LiveSession, recorder: StepRecorder, history: Callable[[], CheckpointHistory]
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._history = history
        self._line = recorder.store.line(recorder.line)

    async def save(self, name: str) -> SavedPoint:
        label = one_line(name)
        if not label:
            raise ToolError("A checkpoint needs a name; give it a word or two.")
        if label.isdecimal():
            raise ToolError(f"{label} would be taken for the number of a step; choose a name with a letter.")
        node = self._session.path[-1].id
        for mark in await self._marks():
            if mark.node == node:
                raise ToolError(f"This place has a name already: {mark.label}.")
            if mark.label.casefold() == label.casefold():
                raise ToolError(f"There is a checkpoint {mark.label} already; choose another name.")
        mark = await _told(self._session.store.mark(self._session.id, node, label=label))
        return SavedPoint(mark.label, self._recorder.position)

    async def list(self) -> PointList:
        steps = await _told(asyncio.to_thread(self._line.steps))
        saved = [SavedPoint(mark.label, await self._position(mark)) for mark in await self._marks()]
        newest = tuple(map(_step, steps[-LISTED:]))
        return PointList(self._recorder.position, self._line.floor, tuple(saved), newest)

    async def diff(self, reference: str, path: str = "") -> SinceThen:
        position = await self._meant(reference)
        plan = await self._plan(position, path)
        objects = self._recorder.store.objects

        def drawn() -> tuple[Patch, str]:
            patch = patch_between(
                [PathChange(item.path, item.target, item.now) for item in plan.items],
                objects,
                text=True,
                units=plan.units,
            )
            if not path or len(plan.items) != 1:
                return patch, patch.body.decode("utf-8", "replace")
            return patch, numbered(plan.items[0], patch.body, objects).decode("utf-8", "replace")

        patch, text = await asyncio.to_thread(drawn)
        return SinceThen(
            position,
            clean(text),
            len(patch.files),
            patch.added,
            patch.removed,
            tuple((clean(item.path), clean(item.reason)) for item in patch.left_out),
        )

    async def restore(
        self, reference: str, permit: PermitBack, path: str = "", hunks: Sequence[int] = ()
    ) -> TakenBack:
        position = await self._meant(reference)
        plan = await self._plan(position, path)
        moving = tuple(item for item in plan.shown if item.state == "change")
        choices = await self._chosen(plan, hunks) if hunks else {}
        if not moving:
            return TakenBack(position, None, (), _left(plan))
        root = Path(plan.root)
        await permit(
            position,
            tuple(root / item.path for item in moving if item.target is not None),
            tuple(root / item.path for item in moving if item.target is None),
        )
        restored = await _told(
            self._recorder.restore(plan, choices, session=self._session.id, label=f"back to step {position}")
        )
        paths = step_names(restored.step) if restored.step else ()
        left = tuple((clean(item.path), clean(item.reason)) for item in restored.skipped)
        number = restored.step.number if restored.step else None
        return TakenBack(position, number, tuple(map(clean, paths)), left)

    async def branch(self, name: str) -> str:
        return await _told(self._history().branch(name))

    async def _marks(self) -> list[NodeMark]:
        marks = await _told(self._session.store.marks(self._session.id))
        return [mark for mark in marks if mark.label]

    async def _position(self, mark: NodeMark) -> int:
        return await _told(self._history().position_of(mark.node))

    async def _meant(self, reference: str) -> int:
        """The position a name or number stands for."""
        wanted = one_line(reference)
        if not wanted:
            raise ToolError("Say which one: name is the name of a checkpoint, or the number of a step.")
        if wanted.isdecimal() and len(wanted) < 12:
            return int(wanted)
        marks = await self._marks()
        mark = next((mark for mark in marks if mark.label.casefold() == wanted.casefold()), None)
        if mark is None:
            known = ", ".join(mark.label for mark in marks[-LISTED:])
            hint = f"there are {known}" if known else "none was saved yet"
            raise ToolError(f"There is no checkpoint {wanted}; {hint}. The number of a step is taken too.")
        return await self._position(mark)

    async def _chosen(self, plan: RestorePlan, hunks: Sequence[int]) -> dict[str, Choice]:
        """The choice of hunks of the one file of a plan; one that others changed stays all the same."""
        if len(plan.items) > 1:
            raise ToolError("Hunks are those of one file; the path is a folder.")
        item = next(iter(plan.items), None)
        if item is None:
            return {}
        found = await _told(asyncio.to_thread(parted, item, self._recorder.store.objects))
        try:
            part = found.part(frozenset(hunks))
        except HermesError as error:
            raise ToolError(str(error)) from error
        return {item.path: part} if item.state == "change" else {}

    async def _plan(self, position: int, path: str = "") -> RestorePlan:
        recorder = self._recorder

        def planned() -> RestorePlan:
            check_position(self._line, position)
            paths = (inside(recorder.root, path, recorder.root),) if path else None
            return plan_back(
                self._line,
                recorder.root,
                position,
                recorder.store.objects,
                limit=recorder.limits.file,
                paths=paths,
            )

        return await _told(recorder.run(planned))


def _step(step: Step) -> FileStep:
    return FileStep(step.number, clean(step.label), step.created, len(step_names(step)))


def _left(plan: RestorePlan) -> tuple[tuple[str, str], ...]:
    return tuple((clean(item.path), clean(item.reason)) for item in plan.shown if item.state != "change")


async def _told(work: Awaitable[T]) -> T:
    """The result; what goes wrong is told to the model."""
    try:
        return await work
    except HermesError as error:
        raise ToolError(str(error)) from error
