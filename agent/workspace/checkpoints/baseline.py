"""The state of a workspace when it was last seen, kept for the next start.

One file for each workspace, one JSON record per line. It is a convenience: a
broken or missing one costs a new survey.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError, StoreError
from agent.workspace.checkpoints.entries import PathKind, entry_of, entry_record
from agent.workspace.checkpoints.manifest import KnownPath
from agent.workspace.checkpoints.objects import TEMPORARY, store_error
from agent.workspace.checkpoints.units import TOP
from tools.kit.files import write_atomically

FORMAT = 3
MAX_BYTES = 500_000_000
"""Of the file: two million paths have about so much."""
_BATCH = 2_000
_DIGEST = re.compile(r"[0-9a-f]{64}")
_BLOB = re.compile(r"(?:[0-9a-f]{40})?")


class Baseline:
    """The file of the workspace `root` in `folder`."""

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root
        self.path = folder / f"{sha256(os.fsencode(root)).hexdigest()[:32]}.json"
        self.written = 0.0
        """When what `load` gave was written, in seconds since the epoch; 0 where there was nothing."""

    def load(self) -> dict[str, KnownPath] | None:
        """What was known; None when nothing was, or it cannot be read. Blocking."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "r", encoding="ascii") as lines:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
                    return None
                head = json.loads(next(lines, "null"))
                if not isinstance(head, dict) or head.get("root") != str(self._root):
                    return None
                found = {path: known for line in lines for path, known in [_known(json.loads(line))]}
                # A file that was cut short would make what is missing look new.
                whole = head.get("format") == FORMAT and head.get("paths") == len(found)
                if not whole or not (head.get("inode", here := self._inode()) == here or self._stands(found)):
                    return None
                self.written = status.st_mtime
                return found
        except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return None

    def save(self, known: dict[str, KnownPath]) -> None:
        """Write down what is known, in place of what was. Blocking. Raises `StoreError`."""
        try:
            private_folder(self._folder)
            batches = self._batches(known)
            write_atomically(self.path, batches, PRIVATE_FILE, durable=False, prefix=TEMPORARY)
        except ConfigError as error:
            raise StoreError(str(error)) from error
        except OSError as error:
            raise store_error(error, self._folder, "written") from error

    def _stands(self, known: dict[str, KnownPath]) -> bool:
        """Whether a file stands just as it was known, its time included: as in a copy put back.

        Else another project has the path by now.
        """
        for path, each in known.items():
            if each.entry is not None and each.entry.kind is PathKind.FILE:
                with suppress(OSError):
                    status = (self._root / path).lstat()
                    if (status.st_size, status.st_mtime_ns) == (each.entry.size, each.entry.modified):
                        return True
        return False

    def _inode(self) -> int:
        """Which folder it is, as far as a restart of the machine leaves it alone; 0 where it is gone."""
        with suppress(OSError):
            return self._root.stat().st_ino
        return 0

    def _batches(self, known: dict[str, KnownPath]) -> Iterator[bytes]:
        head = {"format": FORMAT, "root": str(self._root), "paths": len(known), "inode": self._inode()}
        lines = [json.dumps(head)]
        for path, each in known.items():
            lines.append(json.dumps([path, each.stamp, each.settled, entry_record(each.entry), each.blob]))
            if len(lines) >= _BATCH:
                yield ("\n".join(lines) + "\n").encode("ascii")
                lines = []
        yield ("\n".join(lines) + "\n").encode("ascii") if lines else b""


def _known(record: list) -> tuple[str, KnownPath]:
    """One path of a file that may hold anything. Raises `ValueError` and `TypeError`."""
    path, stamp, settled, fields, blob = record
    entry = entry_of(fields)
    inside = path == TOP or not any(part in ("", ".", "..") for part in path.split("/"))
    if not inside or "\0" in path or entry is None:
        raise ValueError("no path of a workspace")
    if not (entry.digest is None or _DIGEST.fullmatch(entry.digest)) or not _BLOB.fullmatch(blob):
        raise ValueError("no name of contents")
    return path, KnownPath(tuple(map(int, stamp)), bool(settled), entry, blob)
