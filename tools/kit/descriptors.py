"""Waiting for a descriptor of any number: `select.select` takes none above 1,023."""

from __future__ import annotations

import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


def wait_until_ready(
    descriptor: FileDescriptorLike, *, writes: bool = False, seconds: float | None = None
) -> bool:
    """Return whether something can be read, or with `writes` be written, within `seconds` (None: wait).

    Also true if the other side is gone. Raises `OSError` and `ValueError` for a closed descriptor.
    """
    with selectors.PollSelector() as selector:
        selector.register(descriptor, selectors.EVENT_WRITE if writes else selectors.EVENT_READ)
        return bool(selector.select(seconds))
