"""Diagnostics of language servers, for tools that edit files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.services.service import Service

MAX_CHARS = 1_000_000
"""The most characters of a file that is sent to a language server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """A changed file: its text before (None if it was missing) and after (None if it was removed)."""

    path: Path
    before: str | None
    after: str | None


class Diagnostics(Service):
    """The service that checks files after an edit. This class reports nothing."""

    async def after(self, edits: Sequence[FileEdit]) -> Any:
        """Return new problems, as JSON values, for the result of the edit; None if there are none.

        Waits for some seconds at most, and never raises.
        """
        return None


def edit_of(path: Path, before: bytes | None, after: bytes | None) -> FileEdit | None:
    """Return an edit from the bytes of a file; None if the file is large or not UTF-8."""
    try:
        old = None if before is None else before.decode("utf-8")
        new = None if after is None else after.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if max(len(old or ""), len(new or "")) > MAX_CHARS:
        return None
    return FileEdit(path=path, before=old, after=new)
