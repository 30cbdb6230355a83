"""Copies of the workspace for the agents of one session, from creation to the merge.

A copy is created when its agent begins, and kept until its changes are merged or discarded. A copy with
changes outlives the process, however it ends, and is reopened with the session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent.errors import HermesError, StoreError
from agent.events import CopyChanged, Event, Noticed
from agent.session.export.patch import FilePatch, Patch, patch_between
from agent.session.subagents import agent_table
from agent.session.subagents.records import AgentWorker, CopiedFile, Task
from agent.session.wiring.agent_workspace import AgentWorkspace, OpenReach, open_in_copy
from agent.workspace.isolated_copies.copy_folders import Holder, holders
from agent.workspace.isolated_copies.workspace_copy import WorkspaceCopy, make_copy, reopen
from tools.results import ToolError
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.store.store import Store
    from agent.workspace.checkpoints.entries import PathChange, Step
    from agent.workspace.checkpoints.recorder import StepRecorder
    from agent.workspace.checkpoints.restore.apply import Restored
    from agent.workspace.checkpoints.restore.plan import RestorePlan
    from agent.workspace.checkpoints.restore.ref_plan import Choice


log = logging.getLogger(__name__)

NOT_KEPT = (
    "What happens to files is not kept in this session (checkpoints.enabled), so no agent can work in a "
    "copy; use isolation `shared`, or `readonly` for one that only looks."
)

Settled = Literal["merged", "discarded", "unchanged"]
THERE = frozenset({"made", "partly merged"})
"""The recorded states of a copy that still holds unmerged changes."""


@dataclass(frozen=True, slots=True)
class CopyDifference:
    """The changes of an agent in its copy."""

    changes: tuple[PathChange, ...]
    patch: Patch

    @property
    def files(self) -> tuple[CopiedFile, ...]:
        """The changed paths, each with the numbers of its added and removed lines, if known."""
        counted = {file.path: file for file in self.patch.files}
        return tuple(_copied_file(change, counted) for change in self.changes)


class AgentCopies:
    """The copies of the workspace in which agents of the session `root` work, by agent id."""

    are_kept = True
    """True if agents can work in copies."""

    def __init__(
        self, store: Store, root: str, steps: StepRecorder, folder: Path, emit: Callable[[Event], None]
    ) -> None:
        self._emit = emit
        self._store = store
        self._root = root
        self._steps = steps
        self._folder = folder
        self._open: dict[str, WorkspaceCopy] = {}
        self._left: dict[str, str] = {}
        """Ids of copies that earlier processes left, by agent."""
        self._unmerged: dict[str, int] = {}
        """Paths that are neither merged nor discarded, by agent, as last reported."""
        self._looking: asyncio.Task[None] | None = None
        self._closing = False
        self._taking_up = asyncio.Lock()
        self._busy: dict[str, asyncio.Lock] = {}
        self._steps_of_calls: dict[tuple[str, str], Step] = {}

    async def find_again(self, runs: Sequence[AgentWorker]) -> tuple[str, ...]:
        """Find the copies that earlier processes left; return the ids of their agents.

        Changes whose number is not recorded are counted in the background. The caller must hold the session's
        lock.
        """
        found = await asyncio.to_thread(holders, self._folder)
        self._left = {holder.agent: id for id, holder in found.items() if holder.session == self._root}
        unknown: list[str] = []
        for run in runs:
            if run.id in self._left:
                paths = await agent_table.unmerged_count(self._store, run.record.id)
                unknown += [run.id] if paths is None else []
                self._note(run.id, paths or 0)
        if unknown:
            self._looking = asyncio.create_task(self._look(unknown), name="look at copies")
        return tuple(self._left)

    def unmerged_count(self, agent: str) -> int:
        """Return the number of changed paths in an agent's copy that are neither merged nor discarded."""
        return self._unmerged.get(agent, 0)

    def holds(self, agent: str) -> bool:
        """Return whether an agent's copy exists that is neither merged nor discarded."""
        return agent in self._open or agent in self._left

    async def enter(self, run: AgentWorker) -> tuple[WorkspaceCopy, str]:
        """Return the copy in which an agent works, and a note about a new copy for the agent.

        An existing copy is used again, otherwise one is made. Raises `HermesError`.
        """
        async with self._lock(run.id):
            before = await agent_table.copy_of(self._store, run.record.id)
            lost = ""
            if self.holds(run.id):
                try:
                    return await self._copy(run.id), ""
                except StoreError as error:
                    # The remains are left unchanged.
                    self._left.pop(run.id, None)
                    self._note(run.id, 0)
                    lost = str(error)
            if lost or before in THERE:
                gone = lost or "It is no longer there."
                words = f"The copy {run.id} worked in cannot be used: {gone} It begins in a fresh one."
                self._emit(Noticed(kind="warning", text=clean(words)))
            copy = await make_copy(self._steps, self._folder)
            try:
                await copy.hold(Holder(self._root, run.id))
                await agent_table.record_copy(self._store, run.record.id, "made", str(copy.root))
            except BaseException:
                await copy.close()
                raise
            self._open[run.id] = copy
            return copy, _news(copy, before, lost)

    async def settle(self, run: AgentWorker) -> tuple[CopiedFile, ...]:
        """Return the changes in an ended agent's copy; remove a copy without any. Errors are only logged."""
        if not self.holds(run.id):
            return ()
        try:
            difference = await self.changes(run.id)
            if difference.changes:
                self._note(run.id, len(difference.changes))
                return difference.files
            async with self._lock(run.id):
                await self._end(run, "unchanged")
        except HermesError as error:
            log.warning("the copy of %s cannot be looked at: %s", run.id, error)
        return ()

    # Viewing, merging, discarding

    async def changes(self, agent: str, paths: Collection[str] = ()) -> CopyDifference:
        """Return the unmerged changes of a copy, only those at or below `paths` if any are given.

        Raises `HermesError`, also for a path without changes.
        """
        copy = await self._copy(agent)
        changes = _select_changes(await copy.changes(), paths)
        objects = self._steps.store.objects
        return CopyDifference(changes, await asyncio.to_thread(patch_between, changes, objects, text=True))

    async def places(self, agent: str) -> tuple[Path, Path]:
        """Return the root folder of a copy, and that of its original. Raises `HermesError`."""
        copy = await self._copy(agent)
        return copy.root, copy.origin

    async def plan_merge(self, agent: str, paths: Collection[str] = ()) -> RestorePlan:
        """Return a plan for merging a copy into the workspace; only for `paths` if any are given.

        Raises `HermesError`, also for a path without changes.
        """
        copy = await self._copy(agent)
        if paths:
            _select_changes(await copy.changes(), paths)
        return await copy.plan_merge(list(paths) or None)

    async def merge(
        self, run: AgentWorker, plan: RestorePlan, choices: Mapping[str, Choice] | None = None
    ) -> Restored:
        """Carry out a plan as one step of the workspace, and return its result. Raises `HermesError`.

        A conflict that `choices` does not decide is left unchanged in workspace and copy. The copy of an
        ended agent is removed when all of it is merged.
        """
        async with self._lock(run.id):
            copy = await self._copy(run.id)
            restored = await copy.merge(plan, choices, session=self._root, label=f"merge of {run.id}")
            if run.is_over and not (await copy.plan_merge()).items:
                await self._end(run, "merged")
            elif restored.step is not None:
                left = len(await copy.changes())
                await agent_table.record_copy(
                    self._store, run.record.id, "partly merged", str(copy.root), left
                )
                self._note(run.id, left)
            return restored

    async def discard(self, run: AgentWorker) -> int:
        """Delete an ended agent's copy; return the number of unmerged paths. Raises `HermesError`."""
        if not run.is_over:
            raise HermesError(f"{run.id} still works in its copy; wait for its end, or kill it first.")
        async with self._lock(run.id):
            count = len(await (await self._copy(run.id)).changes())
            await self._end(run, "discarded")
            return count

    def note_step(self, agent: str, call: str, step: Step) -> None:
        """Remember the step in which an agent's call merged a copy, until `step_of` asks for it."""
        self._steps_of_calls[agent, call] = replace(step, call=call)

    def step_of(self, agent: str, call: str) -> Step | None:
        """Return and forget the step in which a call merged a copy; None if there is none."""
        return self._steps_of_calls.pop((agent, call), None)

    async def aclose(self) -> None:
        """Release the copies; they are available again when the session is reopened."""
        self._closing = True
        if self._looking is not None:
            # Not cancelled half-way: an opened copy must be released.
            await asyncio.gather(self._looking, return_exceptions=True)
        for copy in self._open.values():
            copy.leave()
        self._open.clear()

    # Internal

    def _lock(self, agent: str) -> asyncio.Lock:
        return self._busy.setdefault(agent, asyncio.Lock())

    async def _copy(self, agent: str) -> WorkspaceCopy:
        async with self._taking_up:
            if (copy := self._open.get(agent)) is not None:
                return copy
            if (id := self._left.get(agent)) is None:
                raise HermesError(
                    f"{agent} has no copy that could be merged: it had none, or that is settled."
                )
            copy = self._open[agent] = await reopen(self._steps, self._folder, id)
            self._left.pop(agent, None)
            return copy

    async def _end(self, run: AgentWorker, how: Settled) -> None:
        copy = self._open.pop(run.id)
        await agent_table.record_copy(self._store, run.record.id, how, str(copy.root), 0)
        self._note(run.id, 0)
        await copy.close()

    def _note(self, agent: str, paths: int) -> None:
        """Emit the number of unmerged paths in a copy if it differs from the last one."""
        if self._unmerged.get(agent, 0) != paths:
            self._unmerged[agent] = paths
            self._emit(CopyChanged(agent=agent, paths=paths))

    async def _look(self, agents: Sequence[str]) -> None:
        """Count the changes in copies whose agents were interrupted."""
        for agent in agents:
            if self._closing:
                return
            async with self._lock(agent):
                if not self.holds(agent):
                    continue
                try:
                    self._note(agent, len(await (await self._copy(agent)).changes()))
                except HermesError as error:
                    log.warning("the copy of %s cannot be looked at: %s", agent, error)


class NoCopies(AgentCopies):
    """A replacement for `AgentCopies` in a session that does not record file changes and so has no copies."""

    are_kept = False

    def __init__(self) -> None:
        pass

    async def find_again(self, runs: Sequence[AgentWorker]) -> tuple[str, ...]:
        return ()

    def unmerged_count(self, agent: str) -> int:
        return 0

    def holds(self, agent: str) -> bool:
        return False

    async def enter(self, run: AgentWorker) -> tuple[WorkspaceCopy, str]:
        raise HermesError(NOT_KEPT)

    def step_of(self, agent: str, call: str) -> Step | None:
        return None

    async def aclose(self) -> None:
        pass


def _select_changes(changes: tuple[PathChange, ...], paths: Collection[str]) -> tuple[PathChange, ...]:
    """Return the changes at or below the given paths. Raises `HermesError` for a path without changes."""
    if not paths:
        return changes
    for path in paths:
        if not any(_lies_at(change.path, path) for change in changes):
            known = ", ".join(clean(change.path) for change in changes[:20]) or "nothing"
            raise HermesError(f"Nothing is changed at {clean(path)} in the copy; changed there: {known}.")
    return tuple(change for change in changes if any(_lies_at(change.path, path) for path in paths))


def _lies_at(path: str, above: str) -> bool:
    return above == "" or path == above or path.startswith(f"{above}/")


def _copied_file(change: PathChange, files: Mapping[str, FilePatch]) -> CopiedFile:
    file = files.get(change.path)
    path = clean(change.path)
    return CopiedFile(path) if file is None else CopiedFile(path, file.added, file.removed)


_BEFORE = {
    "": "",
    "merged": "What you changed before was merged into the project. ",
    "discarded": "What you changed before was discarded. ",
    "unchanged": "Your earlier copy, in which you had changed nothing, is gone. ",
    "made": "The copy you worked in is gone, with what you had changed there. ",
    "partly merged": "The copy you worked in is gone, with what was not merged of it. ",
}


def _news(copy: WorkspaceCopy, before: str, lost: str) -> str:
    """Return a note that tells an agent about its new copy, and about the one before."""
    past = f"The copy you worked in cannot be used any more: {lost} " if lost else _BEFORE.get(before, "")
    whole = "" if copy.coverage.complete else f" The copy is {copy.coverage.sentence()}."
    return (
        f"[{past}You work alone in a copy of the project, in {copy.root}, made just now. Paths in "
        f"{copy.origin} stand for those in the copy: write only there. What you change is merged into the "
        f"project by others, if at all.{whole}]"
    )


ELSEWHERE = (
    "Commands of this session run on another machine, which a copy is not part of; "
    "use isolation `shared`, or `readonly` for an agent that only looks."
)
COPY_OF_COPY = (
    "You work in a copy yourself. Send agents with isolation `shared`: they work in the same copy as you."
)


class AgentWorkspaces:
    """Provides agents with workspaces. `shared` is the session's own; `open_reach` opens those in copies."""

    def __init__(self, shared: AgentWorkspace, copies: AgentCopies, open_reach: OpenReach) -> None:
        self.shared = shared
        self.copies = copies
        self._open_reach = open_reach
        self._own: dict[str, AgentWorkspace] = {}

    def check(self, task: Task, sender: AgentWorker | None) -> None:
        """Raise `ToolError` if an agent of `sender` cannot work in the kind of workspace requested."""
        if task.isolation != "copy":
            return
        if sender is not None and sender.ground_of:
            raise ToolError(COPY_OF_COPY)
        if self.shared.reach.around.commands_elsewhere:
            raise ToolError(ELSEWHERE)
        if not self.copies.are_kept:
            raise ToolError(NOT_KEPT)

    def of(self, run: AgentWorker) -> AgentWorkspace:
        """Return the workspace of an agent, or, before it begins, the one that it would get now."""
        return self._own.get(run.ground_of, self.shared)

    def step_of(self, agent: str, call: str) -> Step | None:
        """Return and forget the step in which a call merged a copy; None if there is none."""
        return self.copies.step_of(agent, call)

    async def enter(self, run: AgentWorker) -> AgentWorkspace:
        """Return the workspace for an agent that begins; creates a copy if needed. Raises `HermesError`."""
        if run.ground_of != run.id:
            return self.of(run)
        copy, news = await self.copies.enter(run)
        place = self._own[run.id] = await self.open_in(copy, run.id, news)
        return place

    async def open_in(self, copy: WorkspaceCopy, agent: str, news: str = "") -> AgentWorkspace:
        """Open a copy as the workspace of an agent. Closing the workspace closes the copy. Raises
        `HermesError`.
        """
        return await open_in_copy(self._open_reach, self.shared.reach, copy, agent, news)

    async def leave(self, run: AgentWorker) -> None:
        """Close the workspace of an ended agent. Never raises."""
        try:
            await self.of(run).reach.terminals.end(run.record.id)
        except Exception:
            log.exception("the terminal of an agent could not be closed")
        if (place := self._own.pop(run.id, None)) is not None:
            await place.close()
