"""Handing bytes to a child by descriptor: not in its arguments, not on the disk."""

from __future__ import annotations

import os
from collections.abc import Callable


def filled(data: bytes, name: str) -> int:
    """A descriptor that can be inherited, at the start of `data`. Raises `OSError`."""
    descriptor = os.memfd_create(name, 0)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def closer(*descriptors: int) -> Callable[[], None]:
    """Closes them, once however often it is called."""
    left = list(descriptors)

    def close() -> None:
        while left:
            os.close(left.pop())

    return close
