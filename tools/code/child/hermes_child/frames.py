"""Frames the agent sends before a script runs: lengths and plain data, readable without imports."""

from __future__ import annotations

import marshal
import os


def read_exactly(descriptor, size):
    """Read `size` bytes as a bytearray; None if the other end closed first."""
    data = bytearray(size)
    return data if read_into(descriptor, memoryview(data)) else None


def read_into(descriptor, view):
    """Fill `view`; return False if the other end closed first."""
    while view:
        count = os.readv(descriptor, [view])
        if count == 0:
            return False
        view = view[count:]
    return True


def read_frame(descriptor):
    """Read the next frame as a dict; None if the agent is gone."""
    head = read_exactly(descriptor, 4)
    if head is None:
        return None
    body = read_exactly(descriptor, int.from_bytes(head, "big"))
    return None if body is None else marshal.loads(body)


def write_all(descriptor, data):
    """Write all of `data`. Raises OSError if the other side no longer reads."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
