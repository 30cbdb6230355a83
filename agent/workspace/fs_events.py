"""Reports of file changes from the operating system.

On Linux each folder that is not ignored gets a separate watch, all on one descriptor with one thread. A
recursive watch would spend thousands of watches on ignored folders. On other systems watching a whole tree
costs nothing.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent.workspace.project_tree import FileEvents

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent, FileSystemEventHandler
    from watchdog.observers.api import BaseObserver

log = logging.getLogger(__name__)

Report = Callable[[str | None], None]
"""Called with a path relative to the project that may have changed; None when anything may have. From any
thread.
"""

_EVENT = struct.Struct("iIII")
_AT_ONCE = 65_536
_OVERFLOW, _IGNORED, _DELETE_SELF = 0x4000, 0x8000, 0x400
_WANTED = (
    0x2  # what is in a file changes
    | 0x8  # a file that was written is closed
    | 0x40  # a name is moved away,
    | 0x80  # to here,
    | 0x100  # made,
    | 0x200  # or removed
    | _DELETE_SELF
    | 0x800  # the folder itself is moved
    | 0x0100_0000  # only folders,
    | 0x0200_0000  # no links to them,
    | 0x0400_0000  # and nothing of files that are gone
)
"""The events of inotify(7)."""
_CATCH_UP_SECONDS = 1.0
_TREE_SECONDS = 0.2
"""The longest delay of an event on systems that watch whole trees."""


class FileEventSource(FileEvents, Protocol):
    """A source of change reports that can be waited for and closed. Both may block for a moment."""

    def catch_up(self) -> None:
        """Wait until past changes were reported, as far as the system allows that."""
        ...

    def close(self) -> None:
        """Stop watching and end the thread."""
        ...


def open_source(root: Path, report: Report) -> FileEventSource:
    """Return the best source of change reports on this system for the project at `root` (resolved). Never
    raises.
    """
    # Without this, warnings of the library would be written across the screen.
    logging.getLogger("watchdog").addHandler(logging.NullHandler())
    try:
        return FolderWatches(root, report) if sys.platform == "linux" else TreeWatch(root, report)
    except (OSError, ImportError):
        return NoWatcher()


class NoWatcher:
    """The source for systems that cannot watch folders: everything has to be checked at intervals."""

    def watch(self, folder: str) -> bool:
        return False

    def unwatch(self, folder: str) -> None:
        return

    def catch_up(self) -> None:
        return

    def close(self) -> None:
        return


class FolderWatches:
    """One inotify watch per folder. Raises `OSError` if no inotify instance is available."""

    def __init__(self, root: Path, report: Report) -> None:
        self._root = root
        self._report = report
        self._lock = threading.Lock()
        self._watches: dict[str, int] = {}
        self._folders: dict[int, tuple[str, ...]] = {}
        """By their watch: one for two folders where they are the same, as while a folder is renamed."""
        self._mark = 0
        self._seen = threading.Event()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._events = _checked(self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        self._stopped, self._stop = os.pipe()
        self._thread = threading.Thread(target=self._read, name="inotify", daemon=True)
        self._thread.start()

    def watch(self, folder: str) -> bool:
        self.unwatch(folder)
        with self._lock:
            # What happens in it before it is known here waits for the lock.
            try:
                number = self._add(os.fsencode(self._root / folder), _WANTED)
            except OSError:
                return False
            self._watches[folder] = number
            self._folders[number] = (*self._folders.get(number, ()), folder)
        return True

    def unwatch(self, folder: str) -> None:
        with self._lock:
            number = self._watches.pop(folder, None)
            if number is None:
                return
            if others := tuple(each for each in self._folders.pop(number, ()) if each != folder):
                self._folders[number] = others
            else:
                self._libc.inotify_rm_watch(self._events, number)

    def catch_up(self) -> None:
        # Events come in order: when the end of this watch is told, so was all before it.
        self._seen.clear()
        try:
            self._mark = self._add(os.fsencode(os.devnull), _DELETE_SELF)
            _checked(self._libc.inotify_rm_watch(self._events, self._mark))
            self._seen.wait(_CATCH_UP_SECONDS)
        except OSError as error:
            log.info("no mark can be set to catch up with events by: %s", error)
            time.sleep(_TREE_SECONDS)

    def close(self) -> None:
        os.close(self._stop)
        self._thread.join()
        os.close(self._events)
        os.close(self._stopped)

    def _add(self, path: bytes, wanted: int) -> int:
        return _checked(self._libc.inotify_add_watch(self._events, path, wanted))

    def _read(self) -> None:
        """Read events and report them until closed."""
        ready = select.poll()
        ready.register(self._events, select.POLLIN)
        ready.register(self._stopped, select.POLLHUP)
        while self._stopped not in (descriptor for descriptor, _ in ready.poll()):
            data, at = os.read(self._events, _AT_ONCE), 0
            while at < len(data):
                number, what, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                self._hear(number, what, os.fsdecode(data[at - length : at].rstrip(b"\0")))

    def _hear(self, number: int, what: int, name: str) -> None:
        if what & _OVERFLOW:
            self._report(None)
        if what & _OVERFLOW or (what & _IGNORED and number == self._mark):
            self._seen.set()
        with self._lock:
            folders = self._folders.get(number, ())
        for folder in folders:
            self._report("/".join(part for part in (folder, name) if part))


def _checked(result: int) -> int:
    """Return the result of a system call, or raise `OSError` if it failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class TreeWatch:
    """One recursive watch of the whole project, for systems on which that is cheap."""

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
        """Passes every event to `report`."""

        def on_any_event(self, event: FileSystemEvent) -> None:
            take(event)

    return Handler()
