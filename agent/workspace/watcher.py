"""Watching the project for changes by others, which are reported when no more have followed for a moment."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from agent.workspace.change_summary import summarize
from agent.workspace.changes import ProjectChanges, path_text
from agent.workspace.fs_events import open_source
from agent.workspace.own_writes import DirtyPaths, OwnWrites
from agent.workspace.project_tree import FileDifference, FileEvents, ProjectTree, merged
from tools.files.access import CredentialGuard
from tools.kit.threads import Stopped
from tools.text.words import plural

T = TypeVar("T")

MAX_WAIT = 5.0
"""Seconds after which changes are reported even if more follow."""

SWEEP_SECONDS = 10.0
"""The shortest time in seconds between two checks of the folders that cannot be watched."""

_SWEEP_SHARE = 0.01
"""The share of one core that these checks may use."""

_QUICK_SWEEP = 0.5
"""Seconds by which such a check may delay a command."""

_GRACE = 0.3
"""Seconds before the project is read, unless it is needed earlier, so that a first request is not delayed."""

_ROOT_SECONDS = 1.0
"""Seconds between two checks for a missing project folder."""


@dataclass(slots=True, eq=False)
class WriteClaim:
    """The changes during one operation of Hermes, filled in when the claim ends. Equal only to itself."""

    changes: ProjectChanges = field(default_factory=ProjectChanges)


class Watcher:
    """A watcher that calls `on_changes`, on the event loop, with changes by others below `root`.

    Contents are compared, so touching a file or rewriting the same content is not a change. Changes close
    together are reported together, `settle` seconds after the last of them. Writes by Hermes are announced
    with `own_write`, `expect` or `claim`, and are not reported. While `enabled` is False, changes are
    recorded silently. All disk work happens in one thread.
    """

    def __init__(
        self,
        root: Path,
        on_changes: Callable[[ProjectChanges], None],
        *,
        settle: float = 0.4,
        home: Path | None = None,
    ) -> None:
        self.enabled = True
        self._root = root.absolute()
        self._on_changes = on_changes
        self._settle = settle
        self._home = home
        self._guard: CredentialGuard | None = None
        self._own = OwnWrites()
        self._dirty = DirtyPaths(self._wake)
        self._stop = threading.Event()
        self._woken = asyncio.Event()
        self._ready = asyncio.Event()
        self._free = asyncio.Event()
        self._free.set()
        self._claims: list[WriteClaim] = []
        self._lock = asyncio.Lock()
        self._sweep_seconds = SWEEP_SECONDS
        self._next_sweep = 0.0
        self._wanted = asyncio.Event()
        """An event set when the project must be read without further delay."""
        self._unsure = False
        self._sweep_unsure = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._task: asyncio.Task[None] | None = None
        self._source: FileEvents | None = None
        self._tree: ProjectTree | None = None

    @property
    def coverage(self) -> str:
        """Return which part of the project is watched, as a sentence for the user."""
        tree = self._tree
        if self._task is None or self._stop.is_set():
            return "The project folder is not watched."
        if tree is None or not self._ready.is_set():
            return "The project folder is being read."
        if not tree.has_root:
            return "The project folder is gone; it is watched again when it is back."
        seen = "is watched" if tree.files == 1 else "are watched"
        text = f"{plural(tree.files, 'file')} in {plural(tree.folders, 'folder')} {seen}"
        if tree.unwatched:
            seconds = round(self._sweep_seconds)
            text = (
                f"{tree.folders - tree.unwatched:,} of {tree.folders:,} folders are watched; "
                f"the system allows no more, so the others are looked at every {seconds} seconds"
            )
        text += "; the project has more than that, which is not looked at." if tree.left_out else "."
        if tree.cut_rules:
            named = path_text(min(tree.cut_rules))
            text += f" Not all rules of {named} are used, as it has too many."
        return text

    async def start(self) -> None:
        """Begin to watch, and return immediately. The project is read in the background (see `ready`)."""
        if self._task is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._stop.clear()
        self._unsure = bool(self._claims)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hermes-watcher")
        self._task = asyncio.create_task(self._run(), name="watcher")

    @property
    def is_ready(self) -> bool:
        """Return whether the project has been read completely."""
        return self._ready.is_set()

    async def ready(self) -> None:
        """Wait until the project has been read; later changes are noticed."""
        if self._task is not None:
            self._wanted.set()
            await self._ready.wait()

    async def catch_up(self) -> None:
        """Report changes so far now, or record them silently if `enabled` is False.

        Returns immediately while the project is still being read.
        """
        if self._ready.is_set():
            await self._check_and_report(for_claim=True)

    async def stop(self) -> None:
        """Stop watching and end the thread; unreported changes are dropped."""
        task, thread = self._task, self._thread
        if task is None or thread is None:
            return
        self._stop.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self._in_thread(self._close)
        thread.shutdown(wait=True)
        self._task = self._thread = self._tree = None
        self._ready.clear()
        self._wanted.clear()

    def own_write(self, path: Path, digest: str | None) -> None:
        """Announce a write to `path`: `digest` is the SHA-256 of the content in hex, None for a removal.

        Call it before the write, or directly after it. Paths outside the project are ignored. Thread-safe.
        """
        relative = self._relative(path)
        if relative is not None:
            self._own.expect(relative, None if digest is None else bytes.fromhex(digest))

    async def expect(self, paths: Iterable[Path]) -> None:
        """Record that Hermes knows the current content of these paths, so that it is not reported."""
        relative = [path for path in map(self._relative, paths) if path is not None]
        await self.ready()
        async with self._lock:
            if self._tree is not None and not self._stop.is_set():
                await self._in_thread(lambda: self._open_tree().adopt(relative))

    @asynccontextmanager
    async def claim(self) -> AsyncIterator[WriteClaim]:
        """Attribute changes inside this block, such as those by a command, to Hermes and not to the user.

        Earlier changes are reported first. All changes inside the block belong to the claim, including those
        by others. Claims may overlap; each then gets the same changes. While the project is still being read,
        nothing waits, and changes during that time are not attributed.
        """
        claim = WriteClaim()
        self._wanted.set()
        self._unsure |= not self._ready.is_set()
        await self.catch_up()
        self._claims.append(claim)
        self._free.clear()
        try:
            yield claim
        finally:
            try:
                await self.catch_up()
            finally:
                self._claims.remove(claim)
                if not self._claims:
                    self._free.set()

    # On the event loop

    async def _run(self) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await self._wanted.wait()
            await self._in_thread(self._open)
            if self._unsure:
                # Earlier changes cannot be attributed; later ones must not be dropped with them.
                await self._check_and_report(for_claim=True)
            self._ready.set()
            while True:
                await self._wait_for_changes()
                await self._free.wait()
                await self._check_and_report()
        except Exception as error:  # the session continues without a watcher, and `coverage` says so
            self._stop.set()
            self._report_error("The project is no longer watched.", error)
        finally:
            self._ready.set()

    async def _wait_for_changes(self) -> None:
        """Wait until a change was reported and no more follow, or until the next regular check."""
        tree = self._open_tree()
        seconds = self._sweep_seconds if tree.unwatched else None
        try:
            async with asyncio.timeout(seconds if tree.has_root else _ROOT_SECONDS):
                await self._woken.wait()
        except TimeoutError:
            return
        begun = time.monotonic()
        while time.monotonic() - begun < MAX_WAIT:
            left = self._dirty.last + self._settle - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(left)

    async def _check_and_report(self, *, for_claim: bool = False) -> None:
        async with self._lock:
            if self._stop.is_set():
                return
            self._woken.clear()
            changes = await self._in_thread(lambda: self._find_changes(for_claim))
            unsure, self._unsure = self._unsure, False
            for claim in tuple(self._claims):
                both = partial(claim.changes.followed_by, changes)
                claim.changes = await self._in_thread(both) if claim.changes else changes
            if not changes or unsure or self._claims or not self.enabled:
                return
            try:
                self._on_changes(changes)
            except Exception as error:  # a listener that fails must not end the watch
                self._report_error("A listener of the watcher failed.", error)

    def _report_error(self, message: str, error: Exception) -> None:
        handler = asyncio.get_running_loop().call_exception_handler
        handler({"message": message, "exception": error})

    def _wake(self) -> None:
        if self._loop is not None and not self._stop.is_set():
            try:
                self._loop.call_soon_threadsafe(self._woken.set)
            except RuntimeError:
                return  # the loop is closed, so nothing is left to notify

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # In the watcher's thread

    def _open(self) -> None:
        # Imported here because they are not needed before the first request.
        from agent.workspace.checkpoints.git_blobs import GitObjects
        from agent.workspace.checkpoints.git_index import read_index
        from agent.workspace.checkpoints.git_settings import bytes_are_gits

        self._root = self._root.resolve()
        self._guard = self._guard or CredentialGuard({})
        self._source = open_source(self._root, self._dirty.add)
        assert self._loop is not None
        read_blobs = GitObjects(self._root, self._loop, self._root).read
        self._tree = ProjectTree(self._root, self._source, self._own, self._stop, self._home, read_blobs)
        index = read_index(self._root)
        self._tree.survey(index if bytes_are_gits(self._root, index, ()) else None)

    def _close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    def _find_changes(self, for_claim: bool) -> ProjectChanges:
        tree, guard = self._open_tree(), self._guard
        had_root = tree.has_root
        if for_claim and self._source is not None:
            self._source.catch_up()
        paths = self._dirty.take()
        if paths is None or not tree.has_root:
            found = tree.differences_everywhere()
        else:
            found = tree.differences_at(paths)
            if tree.unwatched:
                found = merged(found, self._sweep(tree, for_claim))
        changes = summarize(found, self._root, guard) if found and guard is not None else ProjectChanges()
        if tree.has_root != had_root:
            changes = replace(changes, folder="back" if tree.has_root else "gone")
        return changes

    def _sweep(self, tree: ProjectTree, for_claim: bool) -> list[FileDifference]:
        """Check the folders that cannot be watched if that is due, or if it is quick enough for a claim."""
        is_quick = self._sweep_seconds * _SWEEP_SHARE <= _QUICK_SWEEP
        if for_claim and not is_quick:
            # Later it is unknown whether the command or the user made these changes.
            self._sweep_unsure = True
            return []
        begun = time.monotonic()
        if not for_claim and begun < self._next_sweep:
            return []
        found = tree.sweep()
        self._sweep_seconds = max(SWEEP_SECONDS, (time.monotonic() - begun) / _SWEEP_SHARE)
        self._next_sweep = time.monotonic() + self._sweep_seconds
        unsure, self._sweep_unsure = self._sweep_unsure, False
        return [] if unsure else found

    def _open_tree(self) -> ProjectTree:
        if self._tree is None:
            raise Stopped
        return self._tree

    def _relative(self, path: Path) -> str | None:
        """Return `path` relative to the project, with links in its parent folders resolved, or None."""
        absolute = Path(os.path.normpath(self._root / path))
        if not absolute.is_relative_to(self._root):
            absolute = absolute.parent.resolve() / absolute.name
        return absolute.relative_to(self._root).as_posix() if absolute.is_relative_to(self._root) else None
