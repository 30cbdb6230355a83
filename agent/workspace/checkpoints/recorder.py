"""Keeps what every call does to the files of a workspace, as steps of the session's line.

Tools that write files say where (`acting`): only those paths are looked at.
Programs may write anywhere: the whole workspace is looked at before and after.
What changed outside of any call is kept as a step of its own, so that no bytes
are lost, and is never taken for ours. All disk work happens in one thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.errors import HermesError, StoreError
from agent.workspace.checkpoints.baseline import Baseline
from agent.workspace.checkpoints.entries import Change, Coverage, Entry, Kind, LeftOut, Step, StepKind
from agent.workspace.checkpoints.git_blobs import GitObjects
from agent.workspace.checkpoints.register import Found, Limits, Register
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.order import in_order
from tools.actions import Action, CallServer, DeletePath, RunCommand, RunScript, SendInput, WritePath
from tools.files.threads import Stopped
from tools.text import clean

if TYPE_CHECKING:
    from agent.workspace.checkpoints.restore.apply import Restored
    from agent.workspace.checkpoints.restore.plan import Choice, RestorePlan

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds a command waits until the workspace was seen, and what is in it is at hand."""

LABEL = 200
"""Characters of a step's label."""

SLICE, PAUSE = 0.1, 0.002
"""Seconds that the contents of the workspace are read at a stretch, and between two stretches."""

SAVE_SECONDS = 120.0
"""How often what is known is written down; contents nothing names are cleared after five minutes."""

_PROGRAMS = (RunCommand, RunScript, SendInput, CallServer)
_UNREAD = LeftOut(".", "the workspace was still being read")
UNREAD = Coverage((_UNREAD,))


@dataclass(slots=True)
class Recording:
    """What is noted of one call while it runs."""

    call: str
    session: str
    label: str
    wide: bool = False
    """Whether a program ran, so that anything may have changed."""
    blind: bool = False
    """Whether it ran before the workspace had been seen."""
    noted: dict[str, Entry | None] = field(default_factory=dict)
    """How the paths that a tool named stood before."""
    outside: list[str] = field(default_factory=list)
    """Paths that a tool named and that lie outside the workspace."""
    step: Step | None = None
    """What the call did; known when it has ended."""


class Recorder:
    """The steps of the session `line` in the workspace `root` (resolved).

    `trouble` hears, once, why steps cannot be kept.
    """

    def __init__(
        self,
        store: CheckpointStore,
        line: str,
        root: Path,
        limits: Limits,
        trouble: Callable[[str], None],
    ) -> None:
        self.store = store
        self.root = root
        self.limits = limits
        self.own_work: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
        """Open while files are put back, so that whoever watches does not take it for the work of others."""
        self._line = store.line(line)
        self._trouble = trouble
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hermes-checkpoints")
        self._loop = asyncio.get_running_loop()
        self._git = GitObjects(root, self._loop, store.borrowed)
        baseline = Baseline(store.baselines, root)
        ours = _own_folder(store.folder, root)
        self._register = Register(root, store.objects, limits, self._git, baseline, self._stop, ours)
        self._surveyed = asyncio.Event()
        self._at_hand = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._saver: asyncio.Task[None] | None = None
        self._open: list[Recording] = []
        self._troubled = False
        self._position = self._line.last

    @property
    def position(self) -> int:
        """The number of the last step: where the files stand. Another process may have made it."""
        with suppress(StoreError):
            return max(self._position, self._line.last)
        return self._position

    @property
    def line(self) -> str:
        """The session whose line it is."""
        return self._line.session

    def start(self, cut_off: str = "", label: str = "") -> None:
        """Begin to read the workspace, in the background.

        `cut_off` is a call that the end of an earlier process cut off: what changed since the
        workspace was last known is put down to it. See `found`.
        """
        self._task = asyncio.create_task(self._survey(cut_off, label), name="checkpoints")
        self._saver = asyncio.create_task(self._save_now_and_then(), name="checkpoints-saver")

    async def stop(self) -> None:
        """Write down what is known, and let the thread go. May be called again."""
        if self._stop.is_set():
            return
        self._stop.set()
        if self._saver is not None:
            self._saver.cancel()
        await asyncio.gather(*(task for task in (self._task, self._saver) if task), return_exceptions=True)
        if self._register.wants_saving:
            await self._guarded(self._register.save)
        await self._guarded(self._git.close)
        await asyncio.to_thread(self._thread.shutdown, wait=True)

    async def ready(self) -> None:
        """Wait until everything in the workspace was seen and is at hand."""
        if self._task is not None:
            await asyncio.shield(self._task)

    def coverage(self) -> Coverage:
        """What could not be taken back if it were changed now."""
        return self._register.left_out if self._surveyed.is_set() else UNREAD

    @asynccontextmanager
    async def during(self, call: str, label: str, session: str) -> AsyncIterator[Recording]:
        """What changes while this is open, and was announced by `acting`, becomes a step."""
        recording = Recording(call, session, clean(label)[:LABEL])
        self._open.append(recording)
        try:
            yield recording
        finally:
            # A call that is interrupted has done something all the same.
            await asyncio.shield(asyncio.ensure_future(self._finish(recording)))

    async def acting(self, call: str, action: Action, session: str = "") -> None:
        """A call is about to do this: keep what it may change. Never raises.

        `session` tells agents apart that number their calls alike.
        """
        mine = (each for each in reversed(self._open) if session in ("", each.session))
        recording = next((each for each in mine if each.call == call), None)
        if recording is None:
            return
        match action:
            case WritePath() | DeletePath():
                await self._note(recording, action.path)
            case _ if isinstance(action, _PROGRAMS):
                await self._widen(recording)

    async def run(self, work: Callable[[], T]) -> T:
        """Run something that needs the workspace to stand still, between two steps."""
        return await self._in_thread(work)

    async def restore(
        self, plan: RestorePlan, choices: Mapping[str, Choice], *, session: str, label: str
    ) -> Restored:
        """Carry out a plan, as a step of its own. Raises `StoreError`."""
        from agent.workspace.checkpoints.restore.apply import apply_restore

        async with self.own_work():
            restored = await self.run(
                lambda: apply_restore(plan, choices, self.store, self.line, session=session, label=label)
            )
            await self.adopt(change.path for change in (restored.step.changes if restored.step else ()))
        return restored

    async def adopt(self, paths: Iterable[str]) -> None:
        """What stands at these paths now is known, and no news; the position may have moved."""
        wanted = dict.fromkeys(paths)
        await self._guarded(lambda: self._register.accept(self._register.after(wanted)))
        self._position = await self._in_thread(lambda: self._line.last)

    async def catch_up(self) -> bool:
        """Keep what others changed up to now as a step of theirs; False where that cannot be told now.

        It cannot while a program of the agent runs, or before the workspace was seen.
        """
        if not self._at_hand.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._at_hand.wait(), PATIENCE)
        if not self._surveyed.is_set() or any(each.wide for each in self._open):
            return False
        return await self._guarded(self._take_in) is not None

    # Within

    async def _survey(self, cut_off: str, label: str) -> None:
        def see() -> bool:
            found = self._register.survey(news=bool(cut_off))
            if found.changes:
                self._append("command", self.line, cut_off, label, found)
            self._register.accept(found)
            return True

        seen = await self._guarded(see)
        if seen:
            self._surveyed.set()
        with suppress(Stopped):
            while seen and await self._guarded(lambda: self._register.keep(SLICE)) is False:  # noqa: ASYNC110
                # Commands get their turn of the thread in between.
                await asyncio.sleep(PAUSE)
        self._at_hand.set()

    async def _save_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            if self._register.wants_saving:
                await self._guarded(self._register.save)

    async def _note(self, recording: Recording, path: Path) -> None:
        try:
            relative = path.relative_to(self.root).as_posix()
        except ValueError:
            recording.outside.append(str(path))
            return
        if relative == ".":
            await self._widen(recording)
            return
        if relative in recording.noted:
            return
        noted = await self._guarded(lambda: self._noted(relative, recording))
        for each, entry in (noted or {}).items():
            recording.noted.setdefault(each, entry)
        entry = recording.noted.get(relative)
        if entry is not None and entry.kind is Kind.FOLDER:
            # What is done to a folder is done to all that is in it.
            await self._widen(recording)

    def _follow(self) -> None:
        """Take in the steps that another process made, such as `hermes rollback`: they are no news."""
        steps = self._line.steps(after=self._position)
        paths = {change.path for step in steps for change in step.changes}
        if paths:
            self._register.accept(self._register.after(dict.fromkeys(paths)))
            self._position = steps[-1].number

    def _noted(self, path: str, recording: Recording) -> dict[str, Entry | None]:
        self._follow()
        found, noted = self._register.before(path)
        if found.changes:
            # A program that still runs did it, or somebody else: either way it comes first.
            running = next((each for each in self._open if each.wide and each is not recording), None)
            if running is not None:
                self._append("command", running.session, running.call, running.label, found)
            else:
                self._append_outside(found)
            self._register.accept(found)
        return noted

    async def _widen(self, recording: Recording) -> None:
        """A program is about to run: whatever is not ours so far is somebody else's."""
        if recording.wide:
            return
        recording.wide = True
        self._register.hurried = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._at_hand.wait(), PATIENCE)
        self._register.hurried = False
        recording.blind = not self._surveyed.is_set()
        # What a program that runs already did is found out when that ends.
        if not recording.blind and not any(each.wide for each in self._open if each is not recording):
            await self._guarded(self._take_in)

    def _take_in(self) -> bool:
        """Keep what others changed as a step of theirs."""
        self._follow()
        found = self._register.changes()
        noted = {path for each in self._open for path in each.noted}
        others = tuple(change for change in found.changes if change.path not in noted)
        fresh = {path: known for path, known in found.fresh.items() if path not in noted}
        found = replace(found, changes=others, fresh=fresh)
        if others:
            self._append_outside(found)
        self._register.accept(found)
        return True

    async def _finish(self, recording: Recording) -> None:
        try:
            if recording.wide or recording.noted:
                recording.step = await self._guarded(lambda: self._recorded(recording))
        finally:
            self._open.remove(recording)

    def _recorded(self, recording: Recording) -> Step | None:
        """Find out what a call did, and keep that as a step."""
        found = self._what_changed(recording)
        step = None
        if found.changes or found.taken_along or recording.blind:
            kind: StepKind = "command" if recording.wide else "tool"
            step = self._append(
                kind, recording.session, recording.call, recording.label, found, blind=recording.blind
            )
        self._register.accept(found)
        return step

    def _what_changed(self, recording: Recording) -> Found:
        noted = self._register.after(recording.noted)
        if not recording.wide or not self._surveyed.is_set():
            return noted
        wide = self._register.changes()
        # What another call announced is told by that one: it knows what it found there.
        known = {path for each in self._open for path in each.noted}
        changes = (*noted.changes, *(change for change in wide.changes if change.path not in known))
        fresh = {path: seen for path, seen in wide.fresh.items() if path not in known} | dict(noted.fresh)
        return replace(wide, changes=tuple(in_order(changes, key=lambda change: change.path)), fresh=fresh)

    def _append_outside(self, found: Found) -> None:
        self._append("outside", self.line, "", _count(found.changes, "changed outside of any call"), found)

    def _append(
        self, kind: StepKind, session: str, call: str, label: str, found: Found, *, blind: bool = False
    ) -> Step:
        coverage = self._register.coverage(found)
        if blind:
            coverage = replace(coverage, left_out=(_UNREAD, *coverage.left_out))
        step = self._line.append(
            kind=kind,
            session=session,
            call=call,
            label=label,
            root=str(self.root),
            changes=found.changes,
            coverage=coverage,
        )
        self._position = step.number
        return step

    async def _guarded(self, work: Callable[[], T]) -> T | None:
        """The result of disk work; None when it failed, of which the person hears once."""
        try:
            return await self._in_thread(work)
        except Stopped:
            raise
        except Exception as error:
            # Whatever goes wrong here must not cost the call that is recorded.
            if not isinstance(error, (HermesError, OSError)):
                log.exception("checkpoints")
            log.warning("checkpoints: %s", error)
            if not self._troubled:
                self._troubled = True
                self._trouble(f"What happens to files cannot be kept, so it cannot be undone: {error}")
            return None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def sharing() -> T:
            with self.store.sharing():
                return work()

        return await self._loop.run_in_executor(self._thread, sharing)


def _own_folder(store: Path, root: Path) -> Path | None:
    """The folder of Hermes inside the workspace; None where it lies elsewhere."""
    place = store.resolve()
    return next((each for each in (place.parent, place) if root in each.parents), None)


def _count(changes: tuple[Change, ...], what: str) -> str:
    return f"{len(changes):,} {'path' if len(changes) == 1 else 'paths'} {what}"
