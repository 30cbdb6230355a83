"""Reports of changes from the operating system, through the library watchdog.

On Linux each folder that is not ignored gets a separate watch, all on one descriptor with one thread, because
a recursive watch would use thousands of watches for ignored folders. Elsewhere watching a whole tree is
cheap.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agent.workspace.project_tree import FileEvents
from tools.kit.private_folders import PrivateFolder

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers.api import BaseObserver
    from watchdog.observers.inotify_c import CallbackId, InotifyEvent, InotifyFD, Mask, WatchDescriptor

log = logging.getLogger(__name__)

Report = Callable[[str | None], None]
"""A function called from any thread with a project path that may have changed; None if any path may have."""

_UNREADABLE = -1
_CATCH_UP_SECONDS = 1.0
_TREE_SECONDS = 0.2
"""The longest delay of an event on systems that watch whole trees."""


def open_source(root: Path, report: Report) -> FileEvents:
    """Return this system's best source of file events for the project at `root` (resolved). Never raises."""
    # Without this, the library would write warnings to the screen.
    logging.getLogger("watchdog").addHandler(logging.NullHandler())
    try:
        return FolderWatches(root, report) if sys.platform == "linux" else TreeWatch(root, report)
    except (OSError, ImportError):
        return NoWatcher()


class NoWatcher:
    """The source of file events for systems without watches, where everything is checked at intervals."""

    def watch(self, folder: str) -> bool:
        return False

    def unwatch(self, folder: str) -> None:
        return

    def catch_up(self) -> None:
        return

    def close(self) -> None:
        return


class FolderWatches:
    """A source of file events with an inotify watch per folder. Raises `OSError` if no instance is left."""

    def __init__(self, root: Path, report: Report) -> None:
        from watchdog.observers.inotify_c import InotifyFD

        self._root = root
        self._report = report
        self._lock = threading.Lock()
        self._watches: dict[str, tuple[WatchDescriptor, CallbackId]] = {}
        self._numbers = itertools.count(1)
        self._closed = False
        self._mark: _Mark | None = None
        self._inotify: InotifyFD = InotifyFD()
        self._inotify.start()

    def watch(self, folder: str) -> bool:
        self.unwatch(folder)
        number = self._number()
        path = os.fsencode(self._root / folder)
        try:
            descriptor = self._inotify.add_callback(path, _mask(), _Folder(folder, self), number)
        except OSError:
            return False
        if descriptor == _UNREADABLE:
            self._inotify.remove_callbacks([(descriptor, number)])
            return False
        with self._lock:
            self._watches[folder] = (descriptor, number)
        return True

    def unwatch(self, folder: str) -> None:
        with self._lock:
            watch = self._watches.pop(folder, None)
        if watch is not None:
            self._inotify.remove_callbacks([watch])

    def catch_up(self) -> None:
        # Events come in order, so when the mark is reported, all earlier ones were.
        try:
            if self._mark is None:
                self._mark = self._new_mark()
            self._mark.set_and_wait()
        except OSError as error:
            # No watch is left, the disk is full, or another program removed the mark's folder.
            log.info("no mark can be set to catch up with events by: %s", error)
            self._drop_mark()
            time.sleep(_TREE_SECONDS)

    def close(self) -> None:
        self._closed = True
        self._inotify.stop()
        self._inotify.join()
        self._drop_mark()

    def _new_mark(self) -> _Mark:
        mark = _Mark()
        try:
            self._inotify.add_callback(os.fsencode(mark.folder.path), _mask(), mark, self._number())
        except OSError:
            mark.folder.remove()
            raise
        return mark

    def _drop_mark(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.folder.remove()

    def _number(self) -> CallbackId:
        from watchdog.observers.inotify_c import CallbackId

        return CallbackId(next(self._numbers))

    def report(self, path: str | None) -> None:
        """Pass on a report from the watch of a folder."""
        if not self._closed:
            self._report(path)


class _Mark:
    """A private folder in which a file is created to see whether it is reported."""

    def __init__(self) -> None:
        self.folder = PrivateFolder("watch")
        self._awaited = b""
        self._seen = threading.Event()

    def set_and_wait(self) -> None:
        self._seen.clear()
        self._awaited = secrets.token_hex(8).encode()
        file = self.folder.path / self._awaited.decode()
        file.touch(mode=0o600)
        self._seen.wait(_CATCH_UP_SECONDS)
        file.unlink(missing_ok=True)

    def on_event(self, event: InotifyEvent) -> None:
        if event.name == self._awaited:
            self._seen.set()

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        return

    def on_queue_overflow(self) -> None:
        self._seen.set()


class _Folder:
    """A receiver of the events of one folder. Its methods run in the reading thread and must not raise."""

    def __init__(self, path: str, watches: FolderWatches) -> None:
        self._path = path
        self._watches = watches

    def on_event(self, event: InotifyEvent) -> None:
        name = os.fsdecode(event.name)
        self._watches.report("/".join(part for part in (self._path, name) if part))

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        self._watches.report(self._path)

    def on_queue_overflow(self) -> None:
        self._watches.report(None)


def _mask() -> Mask:
    from watchdog.observers.inotify_c import InotifyConstants as Inotify
    from watchdog.observers.inotify_c import Mask

    content = Inotify.IN_MODIFY | Inotify.IN_CLOSE_WRITE
    names = Inotify.IN_CREATE | Inotify.IN_DELETE | Inotify.IN_MOVED_FROM | Inotify.IN_MOVED_TO
    itself = Inotify.IN_DELETE_SELF | Inotify.IN_MOVE_SELF
    how = Inotify.IN_ONLYDIR | Inotify.IN_DONT_FOLLOW | Inotify.IN_EXCL_UNLINK
    return Mask(content | names | itself | how)


class TreeWatch:
    """A source of file events with one recursive watch on the project, for systems where that is cheap."""

    def __init__(self, root: Path, report: Report, observer: BaseObserver | None = None) -> None:
        from watchdog.observers import Observer

        self._root = str(root)
        self._report = report
        self._observer: BaseObserver = observer or Observer()
        self._observer.start()
        self._watching = False

    def watch(self, folder: str) -> bool:
        if folder == "":
            self._observer.unschedule_all()
            self._watching = self._schedule()
        return self._watching

    def unwatch(self, folder: str) -> None:
        if folder == "":
            self._observer.unschedule_all()
            self._watching = False

    def catch_up(self) -> None:
        time.sleep(_TREE_SECONDS)

    def close(self) -> None:
        self._observer.stop()
        self._observer.join()

    def _take(self, event: FileSystemEvent) -> None:
        for path in (event.src_path, event.dest_path):
            if path:
                relative = os.path.relpath(os.fsdecode(path), self._root)
                if relative.split("/")[0] != "..":
                    self._report("" if relative == "." else relative)

    def _schedule(self) -> bool:
        from watchdog import events

        wanted = [
            *(events.FileCreatedEvent, events.FileModifiedEvent, events.FileMovedEvent),
            *(events.FileDeletedEvent, events.DirCreatedEvent, events.DirMovedEvent, events.DirDeletedEvent),
        ]
        try:
            self._observer.schedule(_handler(self._take), self._root, recursive=True, event_filter=wanted)
        except OSError:
            return False
        return True


def _handler(take: Callable[[FileSystemEvent], None]) -> FileSystemEventHandler:
    from watchdog.events import FileSystemEventHandler

    class Handler(FileSystemEventHandler):
        """A handler that passes on every event."""

        def on_any_event(self, event: FileSystemEvent) -> None:
            take(event)

    return Handler()
