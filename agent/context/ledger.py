"""The prompt prefix as a ledger: what was sent stays as it was sent.

Providers cache prompts from the front, so one changed byte early in a request
makes the whole rest dear. Every message is therefore serialised exactly once;
a request is the same frames as before plus new ones at the end. A change of
what was sent needs a declared break; an undeclared one is a bug, found here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Break:
    """The next request does not extend the last one."""

    reason: str
    declared: bool


class PrefixLedger:
    """Frames of one conversation in one wire form."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._sent: list[bytes] = []
        self._sent_tools = b""
        self._hasher = hashlib.sha256()
        self._hashed = 0
        self._declared: str | None = None

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def size(self) -> int:
        """Bytes of all frames."""
        return sum(map(len, self._frames))

    @property
    def digest(self) -> str:
        """SHA-256 of everything that was sent so far, in hex."""
        # Only now: hashing a frame with an image takes too long for the way of a request.
        for frame in self._sent[self._hashed :]:
            self._hasher.update(frame)
        self._hashed = len(self._sent)
        return self._hasher.hexdigest()

    def extend(self, frames: Iterable[bytes]) -> None:
        """Add messages at the end."""
        self._frames.extend(frames)

    def rewrite(self, frames: Iterable[bytes], reason: str) -> None:
        """Replace the conversation: a declared break, named by `reason`."""
        self._frames = list(frames)
        self._declared = reason

    def send(self, tools: bytes = b"") -> tuple[tuple[bytes, ...], Break | None]:
        """The frames of the next request, and the break it makes with the last one, if any.

        The comparison is by equality against what really left, so it also finds
        a change nobody declared; equal objects are the rule, which makes it cheap.
        """
        kept = self._frames[: len(self._sent)] == self._sent and (tools == self._sent_tools or not self._sent)
        broken: Break | None = None
        if not kept:
            broken = Break(
                self._declared or "the prompt prefix changed without a reason", self._declared is not None
            )
            self._hasher = hashlib.sha256()
            self._hashed = 0
        self._sent = list(self._frames)
        self._sent_tools = tools
        self._declared = None
        return tuple(self._frames), broken
