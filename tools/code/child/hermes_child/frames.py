"""Frames the agent sends before a script runs: lengths and plain data, readable without any import."""

from __future__ import annotations

import marshal
import os


def read_exactly(descriptor, size):
    """`size` bytes as a bytearray, or None when the other end closed before."""
    data = bytearray(size)
    return data if read_into(descriptor, memoryview(data)) else None


def read_into(descriptor, view):
    """Fill `view`; whether the other end stayed open until it was full."""
    while view:
        count = os.readv(descriptor, [view])
        if count == 0:
            return False
        view = view[count:]
    return True


def read_frame(descriptor):
    """The next frame as a dict, or None when the agent has gone away."""
    head = read_exactly(descriptor, 4)
    if head is None:
        return None
    body = read_exactly(descriptor, int.from_bytes(head, "big"))
    return None if body is None else marshal.loads(body)


def write_all(descriptor, data):
    """Write all of `data`. Raises OSError when nobody reads any more."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
