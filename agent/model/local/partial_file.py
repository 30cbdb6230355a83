"""A file that is being downloaded. It is private, can be resumed, and is verified before use.

It is in the folder of its destination.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from agent.core.home import PRIVATE_FILE
from agent.errors import HermesError
from tools.kit.files import lock_file, open_lock

CHUNK = 1 << 20

Advance = Callable[[int], None]
"""A function called with the number of bytes processed so far."""


class PartialFile:
    """The unfinished file `<name>.part`, open for appending and locked against a second download."""

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(target.name + ".part")
        self._target = target
        self._fd = -1

    def __enter__(self) -> PartialFile:
        try:
            self._fd = open_lock(self.path)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        if not lock_file(self._fd, seconds=0):
            os.close(self._fd)
            raise HermesError(
                f"{self._target.name} is being fetched by another process; wait until it is done."
            )
        os.fchmod(self._fd, PRIVATE_FILE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    @property
    def size(self) -> int:
        """The number of bytes downloaded so far."""
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        """Remove everything after the first `size` bytes."""
        if size < self.size:
            os.ftruncate(self._fd, size)

    def append(self, data: bytes) -> None:
        """Append data. Raises `HermesError` if it cannot be written."""
        view, at = memoryview(data), self.size
        try:
            while view:
                written = os.pwrite(self._fd, view, at)
                view, at = view[written:], at + written
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def digest(self, advance: Advance) -> str:
        """Return the SHA-256 of the downloaded bytes, in hexadecimal. `advance` reports progress."""
        digest, at = hashlib.sha256(), 0
        while piece := os.pread(self._fd, CHUNK, at):
            digest.update(piece)
            at += len(piece)
            advance(at)
        return digest.hexdigest()

    def discard(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)

    def publish(self) -> None:
        """Sync the bytes to disk and give the file its final name. Raises `HermesError`."""
        try:
            os.fsync(self._fd)
            self.path.replace(self._target)
        except OSError as error:
            raise _unwritable(self._target, error) from error


def _unwritable(path: Path, error: OSError) -> HermesError:
    reason = error.strerror or str(error)
    return HermesError(
        f"Cannot write {path}: {reason}; make room or set HERMES_HOME, then run the same command again."
    )
