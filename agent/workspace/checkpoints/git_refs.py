"""Values of the refs of a repository, in single files, packed or in tables.

A ref is compared by its value: the id of an object, `ref: NAME` if it points to another ref, empty if
missing. Packing moves values between files without changing them. `HEAD` (of each work tree) has a value too,
and so does `HEAD^0`, the commit that it leads to.

Formats: gitformat-packed-refs (`packed-refs`), tables (reftable). Only `Side` functions read the disk.

Tables follow Documentation/technical/reftable of git, versions 1 and 2. Only the blocks of refs are read. A
table may be hostile, so reading stops at invalid data.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache

from agent.workspace.checkpoints.units import within

_MAGIC = b"REFT"
_FOOTER = 5 * 8 + 4
_SIZES = {b"sha1": 20, b"s256": 32}
_DELETED, _ID, _PEELED, _LINK = range(4)
MOST = 50_000_000
"""The size limit of a table in bytes."""


def table_values(tables: Iterable[bytes | None]) -> Mapping[str, str]:
    """Return the values of refs in a stack of tables, oldest first; missing tables are None."""
    found: dict[str, str] = {}
    for data in tables:
        for name, value in _refs(data or b""):
            if value:
                found[name] = value
            else:
                found.pop(name, None)
    return found


def last_update(data: bytes) -> int:
    """Return the highest update number in a table."""
    return int.from_bytes(data[16:24], "big")


def table_of(values: Mapping[str, str], like: bytes, update: int) -> bytes:
    """Return a table in the format of `like` that sets refs, and deletes those with an empty value."""
    version = like[4:5]
    more = like[24:28] if version == b"\2" else b""
    head = _MAGIC + version + b"\0\0\0" + update.to_bytes(8, "big") * 2 + more
    records = b"".join(_record(name, values[name]) for name in sorted(values, key=_bytes))
    block = 4 + len(head) + len(records) + 3 + 2
    first = (len(head) + 4).to_bytes(3, "big")
    body = head + b"r" + block.to_bytes(3, "big") + records + first + b"\0\1"
    footer = head + bytes(_FOOTER - 4)
    return body + footer + zlib.crc32(footer).to_bytes(4, "big")


def _record(name: str, value: str) -> bytes:
    kind, data = _DELETED, b""
    if value.startswith("ref: "):
        target = _bytes(value[5:])
        kind, data = _LINK, _number(len(target)) + target
    elif value:
        kind, data = _ID, bytes.fromhex(value)
    return _number(0) + _number(len(_bytes(name)) << 3 | kind) + _bytes(name) + _number(0) + data


def _refs(data: bytes) -> Iterator[tuple[str, str]]:
    try:
        version, block_size = data[4], int.from_bytes(data[5:8], "big")
        if data[:4] != _MAGIC or version not in (1, 2) or len(data) > MOST:
            return
        head = 24 if version == 1 else 28
        size = 20 if version == 1 else _SIZES[data[24:28]]
        end, start, at = len(data) - head - _FOOTER, 0, head
        while at < end and data[at] == ord("r"):
            length = int.from_bytes(data[at + 1 : at + 4], "big")
            stop = start + length
            restarts = int.from_bytes(data[stop - 2 : stop], "big")
            if length < 6 or stop > end:
                return
            yield from _block(data, at + 4, stop - 2 - 3 * restarts, size)
            # A block is padded to its size, or the next one follows at once.
            padded = block_size and length < block_size and (stop >= end or data[stop] == 0)
            start = at = start + block_size if padded else stop
    except (IndexError, KeyError):
        return


def _block(data: bytes, at: int, end: int, size: int) -> Iterator[tuple[str, str]]:
    name = b""
    while at < end:
        shared, at = _read_number(data, at)
        more, at = _read_number(data, at)
        length, kind = more >> 3, more & 7
        name = name[:shared] + data[at : at + length]
        _, at = _read_number(data, at + length)
        value = ""
        if kind in (_ID, _PEELED):
            value = data[at : at + size].hex()
            at += size * kind
        elif kind == _LINK:
            length, at = _read_number(data, at)
            value = f"ref: {data[at : at + length].decode('utf-8', 'surrogateescape')}"
            at += length
        elif kind != _DELETED:
            return
        yield name.decode("utf-8", "surrogateescape"), value


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Parse a number in the format of pack offsets; return it and the offset of its end."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
    return value, at + 1


def _number(value: int) -> bytes:
    found = [value & 0x7F]
    while value := value >> 7:
        value -= 1
        found.insert(0, 0x80 | value & 0x7F)
    return bytes(found)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


Side = Callable[[str], bytes | None]
"""A function that returns a file's contents at one moment, by path in the workspace; None if missing."""
Values = dict[str, tuple[str, str]]
"""The values of refs before and after a change, by the ref's path in its unit."""

PACKED = "packed-refs"
HEAD, COMMIT = "HEAD", "HEAD^0"
_LINKS = 5
_TREES = "worktrees/"


def holds_refs(rest: str) -> bool:
    """Return whether a file of a repository holds refs, so that its values count and not its bytes."""
    return rest.startswith("refs/") or rest == PACKED or _in_tables(rest)


def is_reflog(rest: str) -> bool:
    """Return whether a file of a repository is the log of a ref, of the main or a linked work tree."""
    return re.match(r"(?:worktrees/[^/]+/)?logs/", rest) is not None


def without(data: bytes, names: Iterable[str]) -> bytes:
    """Return the content of a `packed-refs` file without these refs."""
    gone, kept, dropping = {name.encode("utf-8", "surrogateescape") for name in names}, [], False
    for line in data.splitlines(keepends=True):
        if not line.startswith(b"^"):
            dropping = line.rstrip(b"\n").partition(b" ")[2] in gone and not line.startswith(b"#")
        if not dropping:
            kept.append(line)
    return b"".join(kept)


class Refs:
    """The values of refs at one time. Each file is read once."""

    def __init__(self, read: Side) -> None:
        self._read = cache(read)
        self._stacks: dict[str, Mapping[str, str] | None] = {}

    def value(self, inner: str, name: str) -> str:
        """Return the value of the ref `name` of the repository in `inner`; empty if missing."""
        tree = tree_of(name)
        tables = self.tables(inner, tree)
        if tables is not None:
            return tables.get(name.removeprefix(tree), "")
        if (data := self._read(within(inner, name))) is not None:
            return _plain(data)
        return self.packed(inner).get(name, "") if name.startswith("refs/") else ""

    def current(self, inner: str, name: str) -> str:
        """Return the value of a recorded name, which may be `HEAD^0`; empty if missing."""
        if not name.endswith(COMMIT):
            return self.value(inner, name)
        found = self.value(inner, name[:-2])
        for _ in range(_LINKS):
            if not found.startswith("ref: "):
                break
            found = self.value(inner, found[5:])
        return found

    def packed(self, inner: str) -> Mapping[str, str]:
        """Return the values of the refs in `packed-refs`, by name."""
        data = self._read(within(inner, PACKED))
        return _packed(data) if data else {}

    def tables(self, inner: str, tree: str = "") -> Mapping[str, str] | None:
        """Return the refs in the tables of the repository, or of its work tree `tree`; None if it has no
        tables.
        """
        folder = within(inner, f"{tree}reftable")
        if folder not in self._stacks:
            listed = self._read(f"{folder}/tables.list")
            names = table_names(listed or b"")
            found = table_values(self._read(f"{folder}/{name}") for name in names)
            self._stacks[folder] = None if listed is None else found
        return self._stacks[folder]


def moved_refs(inner: str, rests: Iterable[str], before: Refs, after: Refs) -> Values:
    """Return the changed refs of the repository in `inner`, given the paths of its changed files.

    The commit of a HEAD is included if the index of its work tree changed. HEAD's own value is included if it
    changed or the ref that it points to did.
    """
    changed = set(rests)
    names = {rest for rest in changed if rest.startswith("refs/")}
    sides = [(before.packed(inner), after.packed(inner))] if PACKED in changed else []
    if any(map(_in_tables, changed)):
        sides.append((before.tables(inner) or {}, after.tables(inner) or {}))
    for one, other in sides:
        names |= {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
    names.discard(HEAD)
    values = {name: (before.value(inner, name), after.value(inner, name)) for name in names}
    found = {name: pair for name, pair in values.items() if pair[0] != pair[1]}
    for tree in {"", *map(tree_of, changed)}:
        head = before.value(inner, tree + HEAD), after.value(inner, tree + HEAD)
        leads = head[0] != head[1] or any(each[5:] in found for each in head)
        if leads:
            found[tree + HEAD] = head
        if leads or f"{tree}index" in changed:
            name = tree + COMMIT
            found[name] = before.current(inner, name), after.current(inner, name)
    return found


def tree_of(rest: str) -> str:
    """Return the path prefix of the work tree that a file belongs to; empty for the main work tree."""
    return "/".join(rest.split("/", 2)[:2]) + "/" if rest.startswith(_TREES) and rest.count("/") > 1 else ""


def _in_tables(rest: str) -> bool:
    return rest.removeprefix(tree_of(rest)).startswith("reftable/")


def table_names(listed: bytes) -> list[str]:
    """Return the names of tables in a file `tables.list`, oldest first."""
    return [name for name in listed.decode("utf-8", "replace").split("\n") if name and "/" not in name]


def _plain(data: bytes) -> str:
    text = data.decode("utf-8", "surrogateescape").strip()
    return f"ref: {text[4:].strip()}" if text.startswith("ref:") else text.partition("\n")[0]


@lru_cache(4)
def _packed(data: bytes) -> Mapping[str, str]:
    return dict(_lines(data))


def _lines(data: bytes) -> Iterator[tuple[str, str]]:
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        if line and line[0] not in "#^":
            id, _, name = line.partition(" ")
            yield name.rstrip("\r"), id
