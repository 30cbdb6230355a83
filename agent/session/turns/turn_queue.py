"""Input that arrives while a turn runs: queued messages, steering, notices from processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agent.core.messages import Attachment
from agent.events import Event, Noticed, QueueChanged
from tools.text.safe_text import clean


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A waiting message with its attachments."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    received: int = 0
    """The database row of a message that a messenger delivered; 0 for any other message."""
    shown: str = ""
    """The text that the user sees instead of a note for the model."""


def match_attachments(texts: Iterable[str], items: Iterable[QueuedMessage]) -> list[QueuedMessage]:
    """Return `texts` as messages, each with the attachments of the next item with the same text."""
    left = list(items)
    found: list[QueuedMessage] = []
    for text in texts:
        item = next((each for each in left if each.text == text), None)
        if item is not None:
            left.remove(item)
        found.append(item or QueuedMessage(text))
    return found


class TurnQueue:
    """Waiting messages: the queue is for later turns; steering and notices are for the running one."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._queue: deque[QueuedMessage] = deque()
        self._steering: deque[QueuedMessage] = deque()
        self._notices: deque[QueuedMessage] = deque()
        self._held = False

    @property
    def queue(self) -> tuple[str, ...]:
        return tuple(item.text for item in self._queue)

    def set_queue(self, texts: Sequence[str]) -> None:
        """Replace the queue with the texts that the user edited; an unchanged text keeps its attachments."""
        self._queue = deque(match_attachments(texts, self._queue))
        self._tell()

    def enqueue(self, text: str, attachments: Sequence[Attachment] = (), received: int = 0) -> None:
        self._queue.append(QueuedMessage(text, tuple(attachments), received))
        self._tell()

    def put_back(self, items: Sequence[QueuedMessage]) -> None:
        """Put messages that could not be stored back to the front of the queue.

        The next call of `next` returns None: otherwise the same failure would affect them, and all later
        messages, again at once.
        """
        if items:
            self._queue.extendleft(reversed(items))
            self._held = True
            self._tell()

    def next(self) -> QueuedMessage | None:
        """Remove and return the first queued message; None if there is none, or after `put_back`."""
        held, self._held = self._held, False
        if held or not self._queue:
            return None
        item = self._queue.popleft()
        self._tell(taken=(item,))
        return item

    def steer(self, text: str, attachments: Sequence[Attachment] = (), received: int = 0) -> None:
        self._steering.append(QueuedMessage(text, tuple(attachments), received))
        self._tell()

    def steering_waits(self) -> bool:
        return bool(self._steering)

    def take_steering(self) -> list[QueuedMessage]:
        taken = list(self._steering)
        self._steering.clear()
        if taken:
            self._tell(taken=taken)
        return taken

    def queue_steering(self) -> None:
        """Move messages that the ended turn did not read to the front of the queue."""
        if self._steering:
            self._queue.extendleft(reversed(self._steering))
            self._steering.clear()
            self._tell()

    def _tell(self, taken: Sequence[QueuedMessage] = ()) -> None:
        steering = tuple(item.text for item in self._steering)
        texts = tuple(item.text for item in taken)
        self._emit(QueueChanged(queued=self.queue, steering=steering, taken=texts))

    def notify(self, text: str) -> None:
        """Show a notice now, and keep it for the model's next request."""
        self.remember(text)
        self._emit(Noticed(kind="process", text=clean(text)))

    def remember(self, text: str, shown: str = "", images: Sequence[Attachment] = ()) -> None:
        """Keep a note, with images, for the model's next request. The user is shown `shown` instead."""
        self._notices.append(QueuedMessage(text, tuple(images), shown=shown))

    def take_notices(self) -> list[QueuedMessage]:
        taken = list(self._notices)
        self._notices.clear()
        return taken
