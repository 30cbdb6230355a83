"""Moves through a session's tree: of the files to a step, of the conversation to another node, or of both.

No move deletes anything. Going back creates a new branch and leaves the old one unchanged; restoring files is
one more step. The user's moves are stored as operations, which `undo` and `redo` follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

from agent.core.store.branches import OutlineRow
from agent.core.store.marks import NodeMark
from agent.core.store.nodes import BranchHead, Node, first_line
from agent.core.store.operations import Operation, SessionPlace
from agent.errors import HermesError
from agent.events import BranchSwitched, Event, Noticed
from agent.session.conversation.live_session import LiveSession
from agent.session.conversation.stored_events import readable_rows
from agent.workspace.checkpoints import state_listings
from agent.workspace.checkpoints.entries import Coverage, PathChange, Step
from agent.workspace.checkpoints.git_words import gather_units
from agent.workspace.checkpoints.unit_marks import units_of
from tools.registry import registry
from tools.text.words import plural, shorten

if TYPE_CHECKING:
    from agent.workspace.checkpoints.recorder import StepRecorder
    from agent.workspace.checkpoints.restore.apply import Restored
    from agent.workspace.checkpoints.restore.hunk_restore import DividedPath
    from agent.workspace.checkpoints.restore.merge import Merged
    from agent.workspace.checkpoints.restore.plan import RestorePlan
    from agent.workspace.checkpoints.restore.ref_plan import Choice, PlanItem


ASKED, FILES, SAID = 10, 20, 1_500
"""The most messages and files in a note, and the most characters of the last answer."""


def carried_over(branch: str, nodes: Sequence[Node], changes: Sequence[PathChange]) -> str:
    """Return a note for the model with the requests, the changed files and the last answer of a branch.

    Returns an empty text if there are none.
    """
    asked = [node for node in nodes if node.kind == "user" and node.data.get("origin") != "engine"]
    said = [node for node in nodes if node.kind == "assistant" and node.content.strip()]
    if not asked and not said and not changes:
        return ""
    lines = [f"[Carried over from branch {branch}, which this conversation does not follow:"]
    lines += [f"- asked: {first_line(node.content)}" for node in asked[-ASKED:]]
    lines += [f"- {_what(change)} {change.path}" for change in changes[:FILES]]
    if len(changes) > FILES:
        lines.append(f"- and {plural(len(changes) - FILES, 'more file')}")
    if said:
        text = said[-1].content.strip()
        lines.append(f"- its last answer: {text[:SAID]}{'…' if len(text) > SAID else ''}")
    return "\n".join(lines) + "]"


def _what(change: PathChange) -> str:
    if change.before is None:
        return "made"
    return "removed" if change.after is None else "changed"


def to_undo(done: Sequence[Operation], path: Sequence[int]) -> Operation | None:
    """Return the newest operation not undone that led to a node on `path`; None if there is none. Pure.

    `path` holds the nodes of the conversation, `done` the operations of the session, oldest first. Raises
    `HermesError` if a later operation changed files: the undo would revert those changes too.
    """
    here = _places(path)
    found = next((each for each in reversed(done) if not each.undone and each.after.node in here), None)
    return _alone(found, done)


def to_redo(done: Sequence[Operation], path: Sequence[int]) -> Operation | None:
    """Return the undone operation to repeat, which starts from a node on `path`; None if there is none. Pure.

    Raises `HermesError` in the same case as `to_undo`.
    """
    here = _places(path)
    undone = (each for each in done if each.undone and each.before.node in here)
    found = max(undone, key=lambda each: (here[each.before.node], -each.number), default=None)
    return _alone(found, done)


def _places(path: Sequence[int]) -> Mapping[int | None, int]:
    """Return the index of each node on the path. None stands for the position before the first node."""
    return {None: -1, **{node: at for at, node in enumerate(path)}}


def _alone(found: Operation | None, done: Iterable[Operation]) -> Operation | None:
    if found is not None:
        for each in done:
            if each.number > found.number and not each.undone and each.before.step != each.after.step:
                raise HermesError(
                    f"Since then files were changed on branch {each.after.head} ({each.label}); "
                    "undo that there first, or choose files in /timeline."
                )
    return found


Asked = ParamSpec("Asked")
Outcome = TypeVar("Outcome")


class RunningOperations:
    """The operations that have not ended yet."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def carry(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Return the result of an operation, or raise its error. It ends even if the caller is cancelled."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def wait(self) -> None:
        """Wait until no operation runs."""
        while self._tasks:
            await asyncio.wait(self._tasks)


def uninterrupted(
    work: Callable[Concatenate[HistoryNavigation, Asked], Coroutine[Any, Any, Outcome]],
) -> Callable[Concatenate[HistoryNavigation, Asked], Coroutine[Any, Any, Outcome]]:
    """Decorate a method so that it completes even if its caller is cancelled."""

    @wraps(work)
    async def carry_through(self: HistoryNavigation, *args: Asked.args, **options: Asked.kwargs) -> Outcome:
        return await self.under_way.carry(work(self, *args, **options))

    return carry_through


Reason = Literal["switch", "rewind", "fork", "undo", "redo"]
Moved = Callable[[str], Awaitable[None]]
"""A function called after the conversation was replaced, with the reason why the prompt prefix changed."""

NOT_KEPT = "What happened to files is not kept in this session, so files cannot be taken back."
BUSY = "The agent works at the moment; stop it with esc, then try again."


@dataclass(frozen=True, slots=True)
class NavigationResult:
    """The result of a move through the history."""

    restored: Restored | None
    """The restore of files; None if files were not touched or already as wanted."""
    head: str
    """The branch in use now."""
    draft: str = ""
    """The text of a user message that was taken back."""
    note: bool = False
    """True if the branch begins with a note on the previous one."""

    def sentence(self) -> str:
        """Return a sentence about the result for the user."""
        files = self.restored.sentence() if self.restored is not None else "Files stay as they are."
        return f"On branch {self.head}. {files}"


class HistoryNavigation:
    """The service that surfaces use for going back, branching, undo and redo."""

    def __init__(
        self,
        session: LiveSession,
        recorder: StepRecorder | None,
        emit: Callable[[Event], None],
        moved: Moved,
    ) -> None:
        self._session = session
        self._store = session.store
        self._recorder = recorder
        self._emit = emit
        self._moved = moved
        self._made: set[str] = set()
        """Branches created by going back; one without nodes of its own is removed when it is left."""
        self._going = asyncio.Lock()
        self.under_way = RunningOperations()
        self.busy: Callable[[], bool] = lambda: False

    # Queries

    async def outline(self) -> list[OutlineRow]:
        """Return the whole tree as rows, with only the beginnings of message texts."""
        rows = await self._store.outline(self._session.id)
        return await asyncio.to_thread(readable_rows, rows, registry)

    async def heads(self) -> list[BranchHead]:
        """Return the branches, the one in use first."""
        found = await self._store.heads(self._session.id)
        return sorted(found, key=lambda head: head.name != self._session.head)

    async def marks(self) -> list[NodeMark]:
        return await self._store.marks(self._session.id)

    async def mark(self, node: int, *, label: str | None = None, bookmarked: bool | None = None) -> NodeMark:
        return await self._store.mark(self._session.id, node, label=label, bookmarked=bookmarked)

    async def node(self, node: int) -> Node:
        return await self._store.node(self._session.id, node)

    @property
    def head(self) -> str:
        """The branch in use."""
        return self._session.head

    @property
    def keeps_files(self) -> bool:
        """True if file changes are recorded."""
        return self._recorder is not None

    def coverage(self) -> Coverage:
        """Return which changes could not be undone if they were made now."""
        return self._recorder.coverage() if self._recorder is not None else Coverage()

    async def steps(self) -> tuple[Step, ...]:
        """Return all stored steps, oldest first."""
        if self._recorder is None:
            return ()
        return await asyncio.to_thread(self._recorder.store.line(self._recorder.line).steps)

    async def position_of(self, node: int | None) -> int:
        """Return the position of the files at a node: the number of a step, or 0 before the first."""
        while node is not None:
            here = await self.node(node)
            for each in (here, *reversed(await self._store.before(self._session.id, node, 200))):
                step = each.data.get("step")
                if isinstance(step, int):
                    return step
                node = each.parent
        return 0

    async def changes(self, first: int, second: int) -> tuple[PathChange, ...]:
        """Return the changes between two positions of the files; changes in a git folder are returned as one
        change per repository.
        """
        steps = await self.steps()
        found = await asyncio.to_thread(state_listings.difference, steps, first, second)
        if self._recorder is None:
            return found
        return await asyncio.to_thread(
            gather_units, found, self._recorder.store.objects.read, units_of(steps)
        )

    async def without_ignored(self, changes: Sequence[PathChange]) -> Sequence[PathChange]:
        """Return the changes without those to files that the project ignores."""
        if self._recorder is None:
            return changes
        from agent.workspace.ignore import IgnoreFiles

        ignored = IgnoreFiles(self._recorder.root)
        return await asyncio.to_thread(
            lambda: [each for each in changes if each.path[:1] == "/" or not ignored.passes_over(each.path)]
        )

    async def contents(self, digest: str) -> bytes:
        """Return the content with this digest. Raises `HermesError` if it is no longer stored."""
        if self._recorder is None:
            raise HermesError(NOT_KEPT)
        return await asyncio.to_thread(self._recorder.store.objects.read, digest)

    # Files

    async def plan(self, position: int, paths: Collection[str] | None = None) -> RestorePlan:
        """Return a plan for restoring files to a position. Raises `HermesError` if it is not kept."""
        from agent.workspace.checkpoints.restore.plan import plan_restore

        recorder = self._files()
        line = recorder.store.line(recorder.line)
        if position < line.floor:
            raise HermesError(f"Steps up to {line.floor} are no longer kept, so {position} is out of reach.")
        await recorder.record_unseen()

        def make_plan() -> RestorePlan:
            steps = [step for step in line.steps() if step.kind != "outside"]
            return plan_restore(
                recorder.root,
                steps,
                position,
                recorder.store.objects,
                limit=recorder.limits.file,
                paths=paths,
            )

        return await recorder.run(make_plan)

    async def merge_conflict(self, item: PlanItem) -> Merged | None:
        """Return both sides of a conflict merged; None if that is impossible. Raises `HermesError`."""
        from agent.workspace.checkpoints.restore.plan import without_agent_changes

        objects = self._files().store.objects
        return await asyncio.to_thread(without_agent_changes, item, objects)

    async def split_hunks(self, item: PlanItem, *, merging: bool = False) -> DividedPath:
        """Return a file of a plan, split into hunks. With `merging`, these lead to the merged content.

        Raises `HermesError`.
        """
        from agent.workspace.checkpoints.restore.hunk_restore import divide_path

        objects = self._files().store.objects
        return await asyncio.to_thread(divide_path, item, objects, merging=merging)

    @uninterrupted
    async def restore(self, plan: RestorePlan, choices: Mapping[str, Choice] | None = None) -> Restored:
        """Restore files as planned, and return the result; an undo can revert it. Raises `HermesError`."""
        async with self._moving():
            before = await self.place()
            restored = await self._restore(plan, choices)
            if restored.step is not None or restored.skipped:
                self._emit(Noticed(kind="files", text=restored.sentence()))
            if restored.step is not None:
                await self._tell_model(plan.position, restored)
                await self._operation("restore", f"files back to step {plan.position}", before)
            return restored

    @uninterrupted
    async def bring_in(
        self,
        work: Callable[[], Awaitable[Restored]],
        label: str,
        note: str,
        *,
        onto: Operation | None = None,
    ) -> Restored:
        """Run other work that changes files, such as a merge, and return its result. An undo can revert it.

        `label` names the work for the user, `note` reports it to the model. With `onto`, the work becomes
        part of that operation, unless the conversation has continued since. Raises `HermesError`.
        """
        async with self._moving():
            before = await self.place()
            restored = await work()
            if restored.step is not None:
                data = {"kind": "restore", "to_model": True, "step": restored.step.number}
                await self._session.add("notice", note, data)
                if onto is None or not await self._lead_on(onto, label, before):
                    await self._operation("restore", label, before)
            return restored

    # Conversation and files

    async def place(self) -> SessionPlace:
        """Return the current branch, its end, and the position of the files."""
        path = self._session.path
        position = self._recorder.position if self._recorder is not None else 0
        return SessionPlace(self._session.head, path[-1].id if path else None, position)

    @uninterrupted
    async def rewind(
        self,
        node: int,
        *,
        files: bool = True,
        conversation: bool = True,
        choices: Mapping[str, Choice] | None = None,
    ) -> NavigationResult:
        """Go back to before a user message: files, conversation or both. Raises `HermesError`."""
        message = await self.node(node)
        if message.kind != "user":
            raise HermesError("Only a message of yours can be taken back; choose one.")
        async with self._moving():
            before = await self.place()
            position = await self.position_of(node)
            restored = await self._files_to(position, choices) if files else None
            draft = ""
            if conversation:
                draft = message.content
                await self._branch(message.parent, "rewind", draft=draft)
            elif restored is not None:
                await self._tell_model(position, restored)
            await self._operation("rewind", f"before: {_line(message.content)}", before)
            return NavigationResult(restored, self._session.head, draft)

    @uninterrupted
    async def fork(
        self,
        node: int,
        name: str = "",
        *,
        files: bool = False,
        carry_over: bool = False,
        choices: Mapping[str, Choice] | None = None,
    ) -> NavigationResult:
        """Continue from any node on a new branch, and return the result. Raises `HermesError`.

        With `files`, files go back too. With `carry_over`, the branch begins with a note on what was done on
        the previous branch.
        """
        await self.node(node)
        async with self._moving():
            before = await self.place()
            note = await self._note_of(node) if carry_over else ""
            restored = await self._files_to(await self.position_of(node), choices) if files else None
            await self._branch(node, "fork", name=name)
            if note:
                await self._session.add("notice", note, {"kind": "carry-over", "to_model": True})
            await self._operation("fork", f"branch {self._session.head}", before)
            return NavigationResult(restored, self._session.head, note=bool(note))

    @uninterrupted
    async def switch(
        self, head: str, *, files: bool = True, choices: Mapping[str, Choice] | None = None
    ) -> NavigationResult:
        """Switch to a branch and, with `files`, to its files; return the result. Raises `HermesError`."""
        heads = {each.name: each.node for each in await self.heads()}
        if head not in heads:
            raise HermesError(f"There is no branch {head}; there are {', '.join(heads)}.")
        async with self._moving():
            before = await self.place()
            restored = await self._files_to(await self.position_of(heads[head]), choices) if files else None
            await self._go(head, "switch")
            await self._operation("switch", f"to branch {head}", before)
            return NavigationResult(restored, head)

    async def branch(self, name: str) -> str:
        """Create a branch at the beginning of the agent's current message, without interrupting the agent.

        Returns a sentence about it. Raises `HermesError`.
        """
        path = self._session.path
        last = next((node for node in reversed(path) if node.kind == "assistant"), None)
        await self._store.fork(self._session.id, path[-1].id if last is None else last.parent, name)
        return f"Branch {name} begins here; the conversation continues in {self._session.head}."

    @uninterrupted
    async def rename(self, head: str, name: str) -> None:
        """Rename a branch. Raises `HermesError`."""
        async with self._moving():
            await self._store.rename_head(self._session.id, head, name)
            self._made.discard(head)
            if head == self._session.head:
                self._session.head = name

    # Undo and redo

    async def wait_for_move(self) -> None:
        """Wait until no move is running."""
        async with self._going:
            return

    async def add_note(self, text: str, data: Mapping[str, Any]) -> None:
        """Add a notice to the conversation; if a move is running, add it where the move leads."""
        async with self._going:
            await self._session.add("notice", text, data)

    async def turn_over(self, before: SessionPlace, text: str) -> None:
        """Record a turn that has ended, so that it can be undone. One without any effect is not recorded."""
        if (await self.place()) != before:
            await self._operation("turn", _line(text), before)

    async def undoable(self) -> Operation | None:
        """Return the operation that an undo would revert now; None if there is none.

        Waits for a running move first.

        Raises `HermesError` if the undo would also revert file changes of another window, and while the
        first turn runs, which an undo could revert only when it is over.
        """
        async with self._going:
            newest = await self._store.undoable(self._session.id)
            if newest is None and self.busy():
                raise HermesError(BUSY)
            if newest is None or newest.after.node in (None, (await self.place()).node):
                return newest
            return to_undo(await self._store.operations(self._session.id), self._session.path.ids)

    async def redoable(self) -> Operation | None:
        """Return the operation that a redo would repeat now; None if there is none.

        Waits and raises as `undoable` does.
        """
        async with self._going:
            if await self._store.redoable(self._session.id) is None:
                return None
            return to_redo(await self._store.operations(self._session.id), self._session.path.ids)

    @uninterrupted
    async def undo(self, choices: Mapping[str, Choice] | None = None) -> tuple[Operation, NavigationResult]:
        """Revert the last operation: a turn, a restore, a switch or a fork.

        Returns the operation, and the result of reverting it. Raises `HermesError`.
        """
        operation = await self.undoable()
        if operation is None:
            raise HermesError("There is nothing to undo.")
        return operation, await self._again(operation, operation.before, "undo", True, choices)

    @uninterrupted
    async def redo(self, choices: Mapping[str, Choice] | None = None) -> tuple[Operation, NavigationResult]:
        """Repeat the last undone operation; return it, and the result. Raises `HermesError`."""
        operation = await self.redoable()
        if operation is None:
            raise HermesError("There is nothing to redo.")
        return operation, await self._again(operation, operation.after, "redo", False, choices)

    async def _again(
        self,
        operation: Operation,
        place: SessionPlace,
        reason: Literal["undo", "redo"],
        undone: bool,
        choices: Mapping[str, Choice] | None,
    ) -> NavigationResult:
        async with self._moving():
            restored = await self._files_to(place.step, choices) if self.keeps_files else None
            draft = ""
            here = await self.place()
            if operation.kind == "restore":
                if restored is not None:
                    await self._tell_model(place.step, restored)
            elif (here.head, here.node) != (place.head, place.node):
                if undone and operation.kind == "turn":
                    draft = await self._asked_after(place.node)
                ends = {head.name: head.node for head in await self.heads()}
                if ends.get(place.head, -1) == place.node:
                    await self._go(place.head, reason, draft)
                else:
                    await self._branch(place.node, reason, draft=draft)
            await self._store.set_undone(self._session.id, operation.number, undone)
            return NavigationResult(restored, self._session.head, draft)

    # Internal

    def _files(self) -> StepRecorder:
        if self._recorder is None:
            raise HermesError(NOT_KEPT)
        return self._recorder

    @asynccontextmanager
    async def _moving(self) -> AsyncIterator[None]:
        """Allow one move at a time: others wait. Raises `HermesError` while the agent works."""
        if self.busy():
            raise HermesError(BUSY)
        async with self._going:
            if self._recorder is not None:
                # So that the current state of all files is recorded, not only the reported changes.
                await self._recorder.record_unseen()
            yield

    async def _files_to(self, position: int, choices: Mapping[str, Choice] | None) -> Restored | None:
        if self._recorder is None:
            return None
        return await self._restore(await self.plan(position), choices)

    async def _restore(self, plan: RestorePlan, choices: Mapping[str, Choice] | None) -> Restored:
        return await self._files().restore(
            plan, choices or {}, session=self._session.id, label=f"back to step {plan.position}"
        )

    async def _tell_model(self, position: int, restored: Restored) -> None:
        """Add a note for the model that files differ from what the conversation last saw."""
        if restored.step is None:
            return
        note = f"[The user took files back to where they stood after step {position}; read them again.]"
        data = {"kind": "restore", "to_model": True, "step": restored.step.number}
        await self._session.add("notice", note, data)

    async def _branch(self, node: int | None, reason: Reason, *, name: str = "", draft: str = "") -> None:
        """Create a branch that ends at a node, and switch to it."""
        chosen = name or self._free_name([head.name for head in await self.heads()])
        await self._store.fork(self._session.id, node, chosen)
        if not name:
            self._made.add(chosen)
        await self._go(chosen, reason, draft)

    def _free_name(self, taken: Sequence[str]) -> str:
        base = self._session.head.rpartition("-")
        stem = base[0] if base[0] and base[2].isdigit() else self._session.head
        return next(name for n in range(2, len(taken) + 3) if (name := f"{stem}-{n}") not in taken)

    async def _go(self, head: str, reason: Reason, draft: str = "") -> None:
        left = self._session.head
        await self._store.use_head(self._session.id, head)
        path = await self._store.stored_path(self._session.id, head)
        self._session.move(head, path)
        await self._moved("the conversation continues from another place")
        await self._forget(left)
        node = path[-1].id if path else None
        self._emit(BranchSwitched(head=head, node=node, reason=reason, draft=draft))

    async def _forget(self, head: str) -> None:
        """Drop a branch that was created by going back and has no nodes of its own."""
        if head not in self._made or head == self._session.head:
            return
        ends = {each.name: each.node for each in await self.heads()}
        node = ends.pop(head, None)
        if node is None or node in ends.values() or await self._store.has_children(node):
            self._made.discard(head)
            await self._store.drop_head(self._session.id, head)

    async def _operation(self, kind: str, label: str, before: SessionPlace) -> None:
        await self._store.record_operation(self._session.id, kind, label, before, await self.place())

    async def _lead_on(self, operation: Operation, label: str, before: SessionPlace) -> bool:
        """Extend an operation that ended at `before`, so that it ends at the current position.

        Returns whether that was possible.
        """
        if (operation.after.head, operation.after.node) != (before.head, before.node):
            return False
        after = await self.place()
        return bool(await self._store.extend_operation(self._session.id, operation.number, label, after))

    async def _asked_after(self, node: int | None) -> str:
        """Return the text of the message that began the turn after a node; empty if there is none."""
        path = await self._store.path(self._session.id, self._session.head)
        after = (each for each in path if node is None or each.id > node)
        return next((each.content for each in after if each.kind == "user"), "")

    async def _note_of(self, node: int) -> str:
        """Return a note for the model on what was done on the branch in use after `node`."""
        path = await self._session.whole_path()
        before = await self._store.before(self._session.id, node, path[-1].id) if path else ()
        shared = {node, *(each.id for each in before)}
        last = next((at for at in range(len(path) - 1, -1, -1) if path[at].id in shared), -1)
        after = path[last + 1 :]
        if not after:
            return ""
        position = self._recorder.position if self._recorder is not None else 0
        changes = await self.changes(await self.position_of(path[last].id if last >= 0 else None), position)
        return carried_over(self._session.head, after, changes)


def _line(text: str) -> str:
    from agent.core.store.nodes import first_line

    return shorten(first_line(text), 80)
