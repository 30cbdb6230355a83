"""Restores that are under way, written down before the first path is touched.

The file of a restore is locked by the process that carries it out, so a file
that nobody holds belongs to a restore that was cut off.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agent.core.home import private_folder
from agent.errors import StoreError
from agent.workspace.checkpoints.entries import entry_of, entry_record
from agent.workspace.checkpoints.objects import TEMPORARY, store_error, write_all
from agent.workspace.checkpoints.restore.path_replacement import Move
from agent.workspace.checkpoints.root_identity import identity
from agent.workspace.checkpoints.units import NO_UNITS, Units
from tools.kit.files import create_file, lock_file

FORMAT = 1
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Pending:
    """A restore, as it was decided."""

    id: str
    """Names the step it becomes and the temporary files it makes."""
    line: str
    """The root session whose line the step belongs to."""
    session: str
    """The session that acts."""
    label: str
    created: float
    root: str
    moves: tuple[Move, ...]
    units: Units = NO_UNITS
    """The units that moves are in."""
    place: str = ""
    """Which folder `root` was, see `root_identity`."""

    @property
    def call(self) -> str:
        """What the step of this restore is called, so that it is never appended twice."""
        return f"restore-{self.id}"

    @property
    def beside(self) -> str:
        """The beginning of the names of its temporary files."""
        return f".hermes-{self.id}"


def begun(
    line: str,
    session: str,
    label: str,
    root: str,
    moves: Sequence[Move],
    now: float | None = None,
    *,
    units: Units = NO_UNITS,
) -> Pending:
    """A new restore."""
    created = time.time() if now is None else now
    place = identity(Path(root))
    return Pending(secrets.token_hex(6), line, session, label, created, root, tuple(moves), units, place)


@contextmanager
def held(folder: Path, pending: Pending) -> Iterator[None]:
    """Keep a restore written down while it is carried out; it is forgotten only when that ends well.

    Raises `StoreError` when it cannot be written; nothing was begun then.
    """
    path = folder / f"{pending.id}{_SUFFIX}"
    try:
        private_folder(folder)
        beside = folder / f"{TEMPORARY}{pending.id}"
        descriptor = create_file(beside)
    except OSError as error:
        raise store_error(error, folder, "written") from error
    try:
        try:
            lock_file(descriptor)
            write_all(descriptor, json.dumps(_record(pending), separators=(",", ":")).encode())
            os.fsync(descriptor)
            beside.replace(path)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            raise store_error(error, folder, "written") from error
        yield
        with suppress(FileNotFoundError):
            path.unlink()
    finally:
        os.close(descriptor)


@contextmanager
def abandoned(folder: Path) -> Iterator[list[tuple[Pending, Path]]]:
    """The restores that were cut off, locked against other processes; broken files are passed over."""
    found: list[tuple[Pending, Path]] = []
    opened: list[int] = []
    try:
        for path in sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else []:
            with suppress(OSError, ValueError):
                descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                opened.append(descriptor)
                if lock_file(descriptor, seconds=0) and os.path.samestat(os.fstat(descriptor), path.lstat()):
                    found.append((_pending(path.read_bytes()), path))
        yield found
    finally:
        for descriptor in opened:
            os.close(descriptor)


def forget(path: Path) -> None:
    """Strike a restore out that is finished. Raises `StoreError`."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise store_error(error, path.parent, "cleared") from error


def _record(pending: Pending) -> dict[str, object]:
    return {
        "format": FORMAT,
        "id": pending.id,
        "line": pending.line,
        "session": pending.session,
        "label": pending.label,
        "created": pending.created,
        "root": pending.root,
        "units": dict(pending.units.places),
        "place": pending.place,
        "moves": [[move.path, entry_record(move.now), entry_record(move.wanted)] for move in pending.moves],
    }


def _pending(data: bytes) -> Pending:
    """The restore of a file. Raises `ValueError`."""
    record = json.loads(data)
    try:
        if record["format"] != FORMAT:
            raise ValueError("a format of another Hermes")
        moves = tuple(
            Move(str(path), entry_of(now), entry_of(wanted)) for path, now, wanted in record["moves"]
        )
        units = Units({str(place): str(kind) for place, kind in record.get("units", {}).items()})
        texts = (str(record[name]) for name in ("id", "line", "session", "label"))
        root, place = str(record["root"]), str(record.get("place", ""))
        return Pending(
            *texts, created=float(record["created"]), root=root, moves=moves, units=units, place=place
        )
    except (AttributeError, KeyError, TypeError, StoreError) as error:
        raise ValueError("this is no restore") from error
