"""An unnamed private file to which pieces are appended. It disappears with the process, even in a crash."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import IO


class UnnamedFile:
    """A nameless temporary file, created at first use in `folder` (default: the system's temporary folder).

    Another process of the same user could write to it, so what is read must be checked.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._file: IO[bytes] | None = None
        self._close: weakref.finalize[..., UnnamedFile] | None = None
        self._end = 0

    @property
    def size(self) -> int:
        """The number of bytes in the file."""
        return self._end

    def append(self, data: bytes) -> int:
        """Append `data`; return its offset. Raises `OSError`; what was there before stays readable."""
        file, start = self._open(), self._end
        file.seek(start)
        if file.write(data) != len(data):
            raise OSError("The disk is full.")
        self._end += len(data)
        return start

    def read(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from `start` on. Raises `OSError`."""
        file = self._open()
        file.seek(start)
        return file.read(size)

    def clear(self) -> None:
        """Remove everything."""
        self._end = 0
        if self._close is not None:
            self._close()
            self._file = self._close = None

    def _open(self) -> IO[bytes]:
        if self._file is None:
            import tempfile

            self._file = tempfile.TemporaryFile(buffering=0, dir=self.folder)  # noqa: SIM115 - as long as self
            self._close = weakref.finalize(self, self._file.close)
        return self._file
