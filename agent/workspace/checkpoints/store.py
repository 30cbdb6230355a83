"""The folder that holds all checkpoints, and the locks for its users.

- `format`: the format of the store; a store of another format is refused and left unchanged. - `clock`: the
time when the clock was last read, and how much of it counts. - `lock`: shared by processes that add, held
exclusively by one that cleans up. - `objects/ab/…`: contents of files (`objects.py`). - `lines/SESSION.log`:
the steps of each session (`step_log.py`). - `baselines/…json`: the last seen states of workspaces. -
`pending/…json`: unfinished restores. - `contents/ab/…`: hard links to files of the git extensions LFS and
annex (`objects.py`). - `git/…`: hard links to git's own objects, which use disk space once git has removed
them (`git_keep.py`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError, StoreError
from agent.workspace.checkpoints.git_keep import without_repository
from agent.workspace.checkpoints.objects import CONTENTS, TEMPORARY, ObjectStore, store_error
from agent.workspace.checkpoints.step_log import (
    SUFFIX,
    WAIT_SECONDS,
    MissingLineError,
    StepLog,
    lock,
    usable_name,
)
from tools.kit.files import write_atomically

NAME, FORMAT = "hermes-checkpoints", 1


BLOCK = 4096


def on_disk(size: int) -> int:
    """Return the space in bytes that a file of `size` bytes uses on a typical disk. Pure."""
    return -(-size // BLOCK) * BLOCK


class CheckpointStore:
    """The checkpoints of one user. Creating the object is cheap; any number of threads and processes may use
    it.

    A missing folder is created. Raises `StoreError` if the folder cannot be used, contains something else, or
    was made by a newer version of Hermes; it is then left unchanged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _require_format(folder)
        self.objects = ObjectStore(folder / "objects")
        self._lines: dict[str, StepLog] = {}
        self._mutex = threading.Lock()

    @property
    def lines(self) -> Path:
        return self.folder / "lines"

    @property
    def baselines(self) -> Path:
        return self.folder / "baselines"

    @property
    def pending(self) -> Path:
        return self.folder / "pending"

    @property
    def borrowed_folder(self) -> Path:
        return self.folder / "git"

    def line(self, session: str) -> StepLog:
        """Return the step log of a root session, always the same object. Raises `StoreError` for an invalid
        name.
        """
        with self._mutex:
            if session not in self._lines:
                self._lines[session] = StepLog(self.lines, session, self.objects)
            return self._lines[session]

    def sessions(self) -> tuple[str, ...]:
        """Return the sessions that have a step log. Raises `StoreError`."""
        try:
            names = [path.name for path in self.lines.iterdir()]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise store_error(error, self.lines, "read") from error
        sessions = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
        return tuple(sorted(session for session in sessions if usable_name(session)))

    def drop(self, session: str) -> None:
        """Delete the steps of a deleted session. The next cleanup removes the objects that only they need.
        Raises `StoreError`.
        """
        with suppress(MissingLineError):
            self.line(session).drop()
        with self._mutex:
            self._lines.pop(session, None)

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Prevent cleanup inside this block, from adding the first object until its record is appended.

        Blocks may be nested. Work of less than four minutes needs none, because objects that young are never
        removed. Raises `StoreError` if another process cleans up for too long.
        """
        with self._locked(exclusive=False, seconds=WAIT_SECONDS):
            yield

    @contextmanager
    def alone(self, seconds: float = WAIT_SECONDS) -> Iterator[None]:
        """Prevent other processes from adding inside this block. Raises `BusyError` after `seconds`."""
        with self._locked(exclusive=True, seconds=seconds):
            yield

    def size(self) -> int:
        """Return the store's size on disk in whole blocks.

        Git's objects only count if nothing else refers to them. The size of each file is read, so this must
        not run on the event loop. Raises `StoreError`.
        """
        git = sum(on_disk(size) for _, size, _ in without_repository(self.borrowed_folder))
        git += sum(on_disk(kept.size) for kept in self.objects.linked())
        return git + sum(on_disk(size) for size in self._sizes(self.folder))

    def _sizes(self, folder: Path) -> Iterator[int]:
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        if Path(entry.path) not in (self.borrowed_folder, self.folder / CONTENTS):
                            yield from self._sizes(Path(entry.path))
                    else:
                        with suppress(FileNotFoundError):
                            yield entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            return
        except OSError as error:
            raise store_error(error, self.folder, "read") from error

    @contextmanager
    def _locked(self, *, exclusive: bool, seconds: float) -> Iterator[None]:
        path = self.folder / "lock"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(path, flags, PRIVATE_FILE)
        except OSError as error:
            raise store_error(error, self.folder, "written") from error
        try:
            try:
                lock(descriptor, path, exclusive=exclusive, seconds=seconds)
            except OSError as error:
                raise store_error(error, self.folder, "written") from error
            yield
        finally:
            os.close(descriptor)


def own_folder(store: Path, root: Path) -> Path | None:
    """Return Hermes's home folder if it is inside the workspace, else the store if that is, else None."""
    place = store.resolve()
    return next((each for each in (place.parent, place) if root in each.parents), None)


def _require_format(folder: Path) -> None:
    """Check that the folder is a store of the known format, and create one in an empty or missing folder."""
    try:
        found = _format(folder)
        if found is None:
            others = [name for name in _names(folder) if not name.startswith(TEMPORARY)]
            # Another process may have created the store between the two checks.
            found = _format(folder)
            if found is None and others:
                raise StoreError(
                    f"The folder {folder} holds {others[0][:80]!r} and no checkpoints of Hermes; "
                    "move it away. It was left as it is."
                )
        if found is None or _is_torn(found, folder):
            _begin(folder)
        elif found != f"{NAME} {FORMAT}":
            raise StoreError(
                f"The checkpoints in {folder} are of format {found[:80]!r}, which this Hermes does not know; "
                "update Hermes or move the folder away. They were left as they are."
            )
    except ConfigError as error:
        raise StoreError(str(error)) from error
    except OSError as error:
        raise store_error(error, folder, "written") from error


def _format(folder: Path) -> str | None:
    try:
        descriptor = os.open(folder / "format", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(200).decode("utf-8", "replace").strip()


def _is_torn(found: str, folder: Path) -> bool:
    """Return whether a store's format file is incomplete because `_begin` was interrupted."""
    whole = f"{NAME} {FORMAT}"
    return found != whole and whole.startswith(found.rstrip("\0")) and (folder / "objects").is_dir()


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return []


def _begin(folder: Path) -> None:
    private_folder(folder)
    write_atomically(
        folder / "format", f"{NAME} {FORMAT}\n".encode(), PRIVATE_FILE, replace_any=True, prefix=TEMPORARY
    )
