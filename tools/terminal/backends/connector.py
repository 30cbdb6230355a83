"""Connectors of backends away from this machine; everything else they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tools.terminal.backends.channel import Channel


class Connector(Protocol):
    """A way to run programs at one place. All methods block; they are called on threads."""

    @property
    def place(self) -> str:
        """What the place is called in messages: `the container of python:3.12`."""
        ...

    def anchor(self, command: Sequence[str]) -> Channel:
        """Bring the place up and start the one program that stays. Raises `ToolError`."""
        ...

    def call(self, command: Sequence[str], *, pty: bool) -> Channel:
        """Start a program. Raises `ToolError`."""
        ...

    def explain(self, words: str) -> str:
        """One sentence that says why a program did not start, from what was printed instead."""
        ...

    def release(self) -> None:
        """Take the place down; the anchor has ended. May be called again."""
        ...
