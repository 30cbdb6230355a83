"""Records of a copy that outlives its process: whose it is, and how it began.

```
copies/ID/held      one JSON record per line: the head, paths, a last line
```

It lies beside the copy, where nobody who works in the copy can write.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE
from agent.errors import StoreError
from agent.workspace.checkpoints.entries import LeftOut, PathEntry, entry_of, entry_record
from agent.workspace.checkpoints.manifest import Stamp
from agent.workspace.isolated_copies.copy_folders import HELD
from agent.workspace.isolated_copies.tree_copier import TreeCopied
from tools.kit.files import write_atomically

FORMAT = 1
_BATCH = 1_000
_LAST = ["end"]


@dataclass(frozen=True, slots=True)
class Holder:
    """For whom a copy is held."""

    session: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRecord:
    """A copy as it is taken up again."""

    holder: Holder
    name: str
    """Of the folder it is in, below its place."""
    origin: Path
    position: int
    copied: TreeCopied
    stamps: Mapping[str, tuple[Stamp, bool]]
    """How each path of the copy stood at first, and whether a later change is sure to show."""
    bases: Mapping[str, PathEntry | None]


def write(place: Path, held: CopyRecord) -> None:
    """Write it down, in place of what was. Blocking. Raises `StoreError`."""
    try:
        write_atomically(place / HELD, _batches(_records(held)), PRIVATE_FILE)
    except OSError as error:
        raise StoreError(f"What {place} holds cannot be noted: {error.strerror or error}.") from error


def read(place: Path) -> CopyRecord:
    """What `write` wrote. Blocking. Raises `StoreError`."""
    try:
        with (place / HELD).open(encoding="ascii") as lines:
            head = json.loads(next(lines, "null"))
            return _held(head, [json.loads(line) for line in lines])
    except OSError as error:
        raise StoreError(f"The copy {place} cannot be used: {error.strerror or error}.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"The note of the copy {place} is damaged; its files are still there.") from error


def holders(copies: Path) -> dict[str, Holder]:
    """For whom the copies below `copies` are held, by their ids, oldest first. Blocking; never raises."""
    found: list[tuple[int, str, Holder]] = []
    with suppress(OSError):
        for place in copies.iterdir():
            with suppress(OSError, ValueError, TypeError, KeyError), (place / HELD).open("rb") as lines:
                head = json.loads(next(lines, b"null"))
                since = os.fstat(lines.fileno()).st_mtime_ns
                found.append((since, place.name, Holder(str(head["session"]), str(head["agent"]))))
    return {id: holder for _, id, holder in sorted(found, key=lambda each: each[:2])}


def _records(held: CopyRecord) -> Iterator[list[Any] | dict[str, Any]]:
    copied = held.copied
    yield {
        "format": FORMAT,
        "session": held.holder.session,
        "agent": held.holder.agent,
        "name": held.name,
        "origin": str(held.origin),
        "position": held.position,
        "left_out": [[item.path, item.reason] for item in copied.left_out],
        "leading_back": copied.leading_back,
    }
    yield from (["file", path, stamp] for path, stamp in copied.files.items())
    yield from (["other", path, entry_record(entry)] for path, entry in copied.others.items())
    yield from (["seen", path, stamp, settled] for path, (stamp, settled) in held.stamps.items())
    yield from (["base", path, entry_record(entry)] for path, entry in held.bases.items())
    yield _LAST


def _batches(records: Iterable[Any]) -> Iterator[bytes]:
    lines: list[str] = []
    for record in records:
        lines.append(json.dumps(record))
        if len(lines) >= _BATCH:
            yield ("\n".join(lines) + "\n").encode("ascii")
            lines = []
    yield ("\n".join(lines) + "\n").encode("ascii") if lines else b""


def _held(head: Mapping[str, Any], records: list[list[Any]]) -> CopyRecord:
    if head["format"] != FORMAT or not records or records.pop() != _LAST:
        raise ValueError("cut short, or of another version")
    copied = TreeCopied(
        left_out=[LeftOut(str(path), str(reason)) for path, reason in head["left_out"]],
        leading_back=list(map(str, head["leading_back"])),
    )
    stamps: dict[str, tuple[Stamp, bool]] = {}
    bases: dict[str, PathEntry | None] = {}
    for kind, path, what, *rest in records:
        if kind == "file":
            copied.files[path] = _stamp(what)
        elif kind == "seen":
            stamps[path] = _stamp(what), bool(rest[0])
        elif kind == "base":
            bases[path] = entry_of(what)
        elif (entry := entry_of(what)) is not None:
            copied.others[path] = entry
    name = str(head["name"])
    if name in ("", ".", "..") or "/" in name:
        raise ValueError("no name of a folder")
    return CopyRecord(
        holder=Holder(str(head["session"]), str(head["agent"])),
        name=name,
        origin=Path(str(head["origin"])),
        position=int(head["position"]),
        copied=copied,
        stamps=stamps,
        bases=bases,
    )


def _stamp(record: Iterable[Any]) -> Stamp:
    return tuple(map(int, record))
