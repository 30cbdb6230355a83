"""Unpacking a body while it comes in, up to a limit: a small packed one may stand for a huge one."""

from __future__ import annotations

import zlib


class PackedError(ValueError):
    """A body that cannot be unpacked. The text is a clause that follows the name of its host."""


class Unpacker:
    """Unpacks a body of one content encoding. `limit` are bytes of the unpacked body."""

    def __init__(self, encoding: str, limit: int) -> None:
        kinds = [
            each for each in encoding.lower().replace(" ", "").split(",") if each not in ("", "identity")
        ]
        if len(kinds) > 1 or (kinds and kinds[0] not in ("gzip", "x-gzip", "deflate")):
            raise PackedError(f"packed its answer in a form that was not asked for ({', '.join(kinds)[:60]})")
        self._kind = kinds[0] if kinds else ""
        self._limit = limit
        self._size = 0
        self._engine = self._new() if self._kind else None

    def feed(self, data: bytes) -> bytes:
        """What `data` stands for. Raises `PackedError`."""
        if self._engine is None:
            return self._counted(data)
        found = bytearray()
        while data:
            try:
                found += self._engine.decompress(data, self._limit - self._size - len(found) + 1)
            except zlib.error:
                data = self._bare(data, found)
                continue
            if self._size + len(found) > self._limit:
                raise self._too_large()
            if self._engine.eof:
                # A gzip file may hold several members; what else follows is no part of the body.
                data = self._engine.unused_data
                if self._kind == "deflate" or not data.startswith(b"\x1f\x8b"):
                    break
                self._engine = self._new()
            else:
                data = self._engine.unconsumed_tail
        self._size += len(found)
        return bytes(found)

    def _bare(self, data: bytes, found: bytearray) -> bytes:
        """Begin again without the header of zlib, which some servers leave out."""
        if self._kind != "deflate" or self._size or found:
            raise PackedError("sent an answer that cannot be unpacked") from None
        self._kind = "bare"
        self._engine = zlib.decompressobj(-zlib.MAX_WBITS)
        return data

    def _new(self) -> zlib._Decompress:
        return zlib.decompressobj(zlib.MAX_WBITS if self._kind == "deflate" else zlib.MAX_WBITS | 16)

    def _counted(self, data: bytes) -> bytes:
        self._size += len(data)
        if self._size > self._limit:
            raise self._too_large()
        return data

    def _too_large(self) -> PackedError:
        return PackedError(f"sends more than {self._limit / 1_000_000:g} MB unpacked, which is not taken")
