"""The files of a plugin: read only where they really lie inside its folder, and hashed as a whole."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.integrations.plugins.problem import PluginError
from tools.kit.files import NotAFileError, read_bytes
from tools.text.words import brief

LARGEST = 1_000_000
"""Bytes of a file that is read as a part of the plugin's description."""
MOST_FILES = 5_000
MOST_BYTES = 50_000_000
"""Of all files of a plugin together."""
_PASSED_OVER = frozenset({".git", "__pycache__", ".DS_Store"})
"""What is no part of a plugin: nothing of it is run, as the plugin's Python reads no compiled files."""


class OutsideError(Exception):
    """A path that leads to what is no part of the plugin. The message is a clause."""


def inside(root: Path, path: Path) -> Path:
    """`path` without links. `root` is resolved. Raises `OutsideError` where it leads out of `root`."""
    try:
        real = Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise OutsideError("it cannot be followed") from error
    if not real.is_relative_to(root):
        raise OutsideError("it leads out of the plugin")
    if _PASSED_OVER.intersection(real.relative_to(root).parts):
        raise OutsideError("it leads to what is no part of the plugin")
    return real


def read_part(root: Path, name: str, limit: int = LARGEST) -> bytes | None:
    """The bytes of a file of the plugin; None when nothing is there.

    Raises `OutsideError` for one outside, and `OSError` with a reason for one that cannot be read.
    """
    path = root / name
    if not os.path.lexists(path):
        return None
    real = inside(root, path)
    try:
        return read_bytes(real, limit)[0]
    except NotAFileError as error:
        raise OSError(errno.EINVAL, "it is no plain file") from error
    except FileNotFoundError as error:
        raise OSError(errno.ENOENT, "it is a link that leads nowhere") from error
    except OSError as error:
        reason = f"it is larger than {limit:,} bytes" if error.errno == errno.EFBIG else error.strerror
        raise OSError(error.errno, reason or "it cannot be read") from error


@dataclass(frozen=True, slots=True)
class PluginFile:
    """One file or link of a plugin."""

    content: bytes
    """Of a link: what it names."""
    kind: bytes
    """What it is: `file`, `program`, `special`, `outside`, or `link` and what that leads to."""

    @property
    def digest(self) -> str:
        """The hash that consent is bound to."""
        return hashlib.sha256(self.kind + self.content).hexdigest()


def hashes(root: Path, below: Path | None = None) -> dict[str, str]:
    """What stands for each file by its path below `root`; with `below`, for those in that folder only.

    A link stands for what it leads to inside; one that leads out stands for itself, as it is never read.
    Raises `PluginError` for what cannot be read.
    """
    return {name: file.digest for name, file in read_files(root, below)}


def read_files(root: Path, below: Path | None = None) -> Iterator[tuple[str, PluginFile]]:
    """Each file by its path below `root`, read one by one. Raises `PluginError` as `hashes` does."""
    total = 0
    for found, path in enumerate(_walk(below or root)):
        name = path.relative_to(root).as_posix()
        try:
            file = read_file(root, path)
        except OSError as error:
            raise PluginError(
                f"{brief(path, 300)} cannot be read: {error.strerror or error}; mend or remove it."
            ) from None
        total += len(file.content)
        if found >= MOST_FILES or total > MOST_BYTES:
            most = f"{MOST_FILES:,} files or {MOST_BYTES // 1_000_000} MB"
            raise PluginError(f"The plugin in {brief(root, 300)} has more than {most}; make it smaller.")
        yield name, file


def digest(parts: Mapping[str, str]) -> str:
    """One hash for all files, by the result of `hashes`."""
    total = hashlib.sha256()
    for name in sorted(parts):
        total.update(f"{name}\0{parts[name]}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def walk(root: Path) -> Iterator[Path]:
    """All files and links of a plugin, in order; folders behind links are not entered."""
    return _walk(root)


def _walk(root: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise PluginError(f"{brief(error.filename, 300)} cannot be read: {error.strerror}; mend it.")

    for parent, below, files in os.walk(root, onerror=fail):
        below[:] = sorted(name for name in below if name not in _PASSED_OVER)
        links = [name for name in below if Path(parent, name).is_symlink()]
        for name in sorted([*files, *links]):
            if name not in _PASSED_OVER:
                yield Path(parent, name)


def read_file(root: Path, path: Path) -> PluginFile:
    """One file or link of the plugin in `root`. Raises `OSError`."""
    if path.is_symlink():
        target = os.fsencode(path.readlink())
        try:
            real = inside(root, path)
        except OutsideError:
            return PluginFile(target, b"outside\0")
        # What lies behind a folder's link is hashed where it lies.
        return PluginFile(target, b"link\0" + os.fsencode(real.relative_to(root)))
    try:
        content, status = read_bytes(Path(os.path.realpath(path)), MOST_BYTES)
    except NotAFileError:
        return PluginFile(b"", b"special\0")
    return PluginFile(content, b"program\0" if status.st_mode & stat.S_IXUSR else b"file\0")
