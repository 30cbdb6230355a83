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
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from agent.errors import HermesError
from agent.workspace.checkpoints.baseline import Baseline
from agent.workspace.checkpoints.entries import Change, Coverage, Entry, LeftOut, Step, StepKind
from agent.workspace.checkpoints.git_blobs import blobs
from agent.workspace.checkpoints.register import Limits, Register
from agent.workspace.checkpoints.store import CheckpointStore
from tools.actions import Action, CallServer, DeletePath, RunCommand, RunScript, SendInput, WritePath
from tools.files.threads import Stopped
from tools.text import clean

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds a command waits for the first look at the workspace."""

LABEL = 200
"""Characters of a step's label."""

_PROGRAMS = (RunCommand, RunScript, SendInput, CallServer)
UNREAD = Coverage((LeftOut(".", "the workspace was still being read"),))


@dataclass(slots=True)
class Recording:
    """What is noted of one call while it runs."""

    call: str
    session: str
    label: str
    wide: bool = False
    """Whether a program ran, so that anything may have changed."""
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
        self._line = store.line(line)
        self._trouble = trouble
        self._stop = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hermes-checkpoints")
        self._loop = asyncio.get_running_loop()
        baseline = Baseline(store.baselines, root)
        self._register = Register(root, store.objects, limits, self._blobs, baseline, self._stop)
        self._surveyed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._open: dict[str, Recording] = {}
        self._troubled = False
        self._position = self._line.last

    @property
    def position(self) -> int:
        """The number of the last step: where the files stand."""
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

    async def stop(self) -> None:
        """Write down what is known, and let the thread go. May be called again."""
        if self._stop.is_set():
            return
        self._stop.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        if self._register.complete:
            await self._guarded(self._register.save)
        await asyncio.to_thread(self._thread.shutdown, wait=True)

    async def ready(self) -> None:
        """Wait until everything in the workspace was seen and is at hand."""
        if self._task is not None:
            await asyncio.shield(self._task)

    def coverage(self) -> Coverage:
        """What could not be taken back if it were changed now."""
        if not self._surveyed.is_set():
            return UNREAD
        return self._register.left_out()

    @asynccontextmanager
    async def during(self, call: str, label: str, session: str) -> AsyncIterator[Recording]:
        """What changes while this is open, and was announced by `acting`, becomes a step."""
        recording = Recording(call, session, clean(label)[:LABEL])
        self._open[call] = recording
        try:
            yield recording
        finally:
            del self._open[call]
            # A call that is interrupted has done something all the same.
            await asyncio.shield(asyncio.ensure_future(self._finish(recording)))

    async def acting(self, call: str, action: Action) -> None:
        """A call is about to do this: keep what it may change. Never raises."""
        recording = self._open.get(call)
        if recording is None:
            return
        match action:
            case WritePath() | DeletePath():
                await self._note(recording, action.path)
            case _ if isinstance(action, _PROGRAMS):
                if not recording.wide:
                    recording.wide = True
                    await self._catch_up(recording)

    async def run(self, work: Callable[[], T]) -> T:
        """Run something that changes files of the workspace, such as a restore, between two steps."""
        return await self._in_thread(work)

    async def adopt(self, paths: Iterable[str]) -> None:
        """What stands at these paths now is known, and no news; the position may have moved."""
        wanted = dict.fromkeys(paths)
        await self._guarded(lambda: self._register.after(wanted))
        self._position = await self._in_thread(lambda: self._line.last)

    # Within

    async def _survey(self, cut_off: str, label: str) -> None:
        changes = await self._guarded(self._register.survey)
        if changes and cut_off:
            await self._guarded(lambda: self._append("command", self.line, cut_off, label, changes))
        self._surveyed.set()
        if changes is not None:
            with suppress(Stopped):
                await self._guarded(self._register.keep_all)

    async def _note(self, recording: Recording, path: Path) -> None:
        try:
            relative = path.relative_to(self.root).as_posix()
        except ValueError:
            recording.outside.append(str(path))
            return
        found = await self._guarded(lambda: self._register.before([relative]))
        for each, entry in (found or {}).items():
            recording.noted.setdefault(each, entry)

    async def _catch_up(self, recording: Recording) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._surveyed.wait(), PATIENCE)
        if not self._surveyed.is_set():
            return
        changes = await self._guarded(self._register.changes)
        ours = recording.noted.keys()
        others = tuple(change for change in changes or () if change.path not in ours)
        if others:
            label = _count(others, "changed outside of any call")
            await self._guarded(lambda: self._append("outside", self.line, "", label, others))

    async def _finish(self, recording: Recording) -> None:
        if not (recording.wide or recording.noted):
            return
        if recording.wide and not self._surveyed.is_set():
            recording.wide = False
        changes = await self._guarded(lambda: self._what_changed(recording))
        if not changes:
            return
        kind: StepKind = "command" if recording.wide else "tool"
        recording.step = await self._guarded(
            lambda: self._append(kind, recording.session, recording.call, recording.label, changes)
        )

    def _what_changed(self, recording: Recording) -> tuple[Change, ...]:
        noted = self._register.after(recording.noted)
        if not recording.wide:
            return noted
        known = {change.path for change in noted}
        wide = (change for change in self._register.changes() if change.path not in known)
        return tuple(sorted((*noted, *wide), key=lambda change: change.path))

    def _append(
        self, kind: StepKind, session: str, call: str, label: str, changes: tuple[Change, ...]
    ) -> Step:
        step = self._line.append(
            kind=kind,
            session=session,
            call=call,
            label=label,
            root=str(self.root),
            changes=changes,
            coverage=self._register.coverage(changes),
        )
        self._position = step.number
        if self._register.complete and self._register.wants_saving:
            self._register.save()
        return step

    def _blobs(self, ids: Iterable[str]) -> Mapping[str, bytes]:
        """Called in the thread; git is run by the loop."""
        return asyncio.run_coroutine_threadsafe(blobs(self.root, ids), self._loop).result()

    async def _guarded(self, work: Callable[[], T]) -> T | None:
        """The result of disk work; None when it failed, of which the person hears once."""
        try:
            return await self._in_thread(work)
        except (HermesError, OSError) as error:
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


def _count(changes: tuple[Change, ...], what: str) -> str:
    return f"{len(changes):,} {'path' if len(changes) == 1 else 'paths'} {what}"
