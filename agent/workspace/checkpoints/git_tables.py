"""Refs in tables (`reftable`): reading their values, and making a table that sets some. Pure.

Format: Documentation/technical/reftable of git, versions 1 and 2. Only the blocks of refs are read. A table
may be hostile, so reading stops at invalid data.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping

_MAGIC = b"REFT"
_FOOTER = 5 * 8 + 4
_SIZES = {b"sha1": 20, b"s256": 32}
_DELETED, _ID, _PEELED, _LINK = range(4)
MOST = 50_000_000
"""The size limit in bytes of a table."""


def table_values(tables: Iterable[bytes | None]) -> Mapping[str, str]:
    """Return the values of refs in a stack of tables, oldest first; see `git_refs`."""
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
    """Return a table in the format of `like` that sets refs, and deletes those without a value."""
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
