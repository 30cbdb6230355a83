"""The prompt prefix as a ledger: content that was sent is sent again unchanged.

Providers cache prompts from the front, so one changed byte early in a request makes the rest expensive. Each
frame is therefore made exactly once. A request is the same frames as before plus new ones at the end. A
change of earlier frames must be declared as a break; an undeclared one is a bug, and is detected here.

Cache marks tell a provider where its cached prefix should end. They move with every request and are not
compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.model.protocol import THOUGHT, Frame


@dataclass(frozen=True, slots=True)
class Break:
    """A declared point at which the next request does not begin with the previous one."""

    reason: str
    declared: bool


@dataclass(frozen=True, slots=True)
class Sending:
    """The content of the next request."""

    frames: tuple[Frame, ...]
    marks: tuple[int, ...]
    """Positions in `frames`, ascending, at most three: the system prompt has one, providers take four."""
    broken: Break | None
    """The break from the previous request, if any."""


class PrefixLedger:
    """The frames of one conversation, in the form in which one model receives them."""

    def __init__(self) -> None:
        self._frames: list[Frame] = []
        self._sent: tuple[Frame, ...] = ()
        self._sent_head = b""
        self._left_out = ""
        self._hasher = hashlib.sha256()
        self._hashed = 0
        self._declared: str | None = None

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def size(self) -> int:
        """The total size of all frames in bytes."""
        return sum(map(len, self._frames))

    @property
    def digest(self) -> str:
        """The SHA-256 of all frames sent so far, in hex."""
        # Only now: hashing a frame with an image takes too long for the way of a request.
        for frame in self._sent[self._hashed :]:
            self._hasher.update(frame.data)
        self._hashed = len(self._sent)
        return self._hasher.hexdigest()

    def extend(self, frames: Iterable[Frame]) -> None:
        """Append frames to the conversation."""
        self._frames.extend(frames)

    def rewrite(self, frames: Iterable[Frame], reason: str) -> None:
        """Replace the conversation: a declared break with this `reason`."""
        self._frames = list(frames)
        self._declared = reason

    def send(self, head: bytes = b"", *, without: str = "", reason: str = "", marked: bool = True) -> Sending:
        """Return the frames of the next request after `head` (tools and system prompt), with marks if
        `marked`.

        Frames of the kind `without` are left out. To start or stop leaving them out is a break, declared by
        `reason`.

        Frames are compared with those of the last request, so undeclared changes are found. They are usually
        the same objects, which makes it cheap.
        """
        frames = tuple(self._frames)
        if without:
            frames = tuple(frame for frame in frames if frame.kind != without)
        kept = frames[: len(self._sent)] == self._sent and (head == self._sent_head or not self._sent)
        broken: Break | None = None
        if not kept:
            if self._declared is None and without != self._left_out:
                self._declared = reason
            broken = Break(
                self._declared or "the prompt prefix changed without a reason", self._declared is not None
            )
            self._hasher = hashlib.sha256()
            self._hashed = 0
        marks = cache_marks(self._frames, len(self._sent) if kept else 0, without) if marked else ()
        self._sent, self._sent_head, self._left_out = frames, head, without
        self._declared = None
        return Sending(frames, marks, broken)


def cache_marks(frames: Sequence[Frame], sent: int = 0, without: str = "") -> tuple[int, ...]:
    """Return the indexes of the frames at which the provider should end its cache, ascending.

    The newest frame is one, so that the next request finds all of this request in the cache. Another is the
    last frame of the request that the model last answered. It is needed after another model or process
    continued the conversation.

    Requests with and without thoughts have separate caches, so the last request of this form counts as well
    as the last one of all. `sent` is the number of frames in the last request of this process, which may have
    had no answer.
    """
    newest = len(frames) - sum(frame.kind == without for frame in frames if without) - 1
    if newest < 0:
        return ()
    places, last, position = {newest}, sent - 1, newest
    for at in range(len(frames) - 1, 0, -1):
        frame = frames[at]
        position -= not without or frame.kind != without
        if frame.own and not frames[at - 1].own:
            last = max(last, position)
            if (frame.kind == THOUGHT) is not bool(without):
                places.add(position)
                break
    places.add(last)
    return tuple(sorted(place for place in places if place >= 0))
