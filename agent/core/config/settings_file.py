"""Reading of settings files at paths that may hold anything: folders, pipes, link loops, huge files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.core.home import private_folder
from agent.errors import ConfigError
from tools.kit.files import file_lock

MAX_BYTES = 1_000_000
"""The size in bytes of the largest settings file that is read. A real one has a few thousand."""

PATIENCE = 20.0
"""Seconds to wait for another process that is changing the same file."""

_REASONS = {
    errno.ELOOP: "it is a loop of links",
    errno.EACCES: "you may not read it; check its permissions",
    errno.EPERM: "you may not read it; check its permissions",
    errno.ENAMETOOLONG: "its path is too long",
}


class UnreadableSettingsError(ConfigError):
    """Raised if a settings file exists but cannot be read.

    The text is the reason, without the file's name.
    """


def read_file(path: Path, *, follow: bool = True) -> bytes | None:
    """Return the content of a regular file of at most `MAX_BYTES`; None if the file does not exist.

    A pipe or device is refused without waiting. With `follow=False`, a symbolic link as the last part of the
    path is refused. Raises `UnreadableSettingsError`.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UnreadableSettingsError(_reason(error)) from error
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise UnreadableSettingsError("it is a folder; a file belongs there")
        if not stat.S_ISREG(mode):
            raise UnreadableSettingsError("it is not a regular file")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UnreadableSettingsError(_reason(error)) from error
    finally:
        os.close(descriptor)
    if len(content) > MAX_BYTES:
        raise UnreadableSettingsError(
            f"it is larger than {MAX_BYTES // 1_000_000} MB, so it is not a settings file"
        )
    return content


@contextmanager
def lock_and_read(path: Path) -> Iterator[bytes | None]:
    """Lock a settings file and yield its content as `read_file` does; the block may replace the file.

    Other Hermes processes wait meanwhile. Raises `UnreadableSettingsError` or `ConfigError`, and `OSError`
    after `PATIENCE`.
    """
    private_folder(path.parent)
    with file_lock(path.with_name(f".{path.name.removeprefix('.')}.lock"), seconds=PATIENCE):
        yield read_file(path)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return _REASONS.get(error.errno or 0) or error.strerror or "it cannot be opened"
    return "its path holds a NUL byte"
