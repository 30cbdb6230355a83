"""What came in while a turn runs: queued messages, steering, notices from processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from agent.events import Event, Noticed, QueueChanged
from tools.text import clean


class Mailbox:
    """Messages that wait. The queue is for the next turn, steering and notices are for the running one."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._queue: deque[str] = deque()
        self._steering: deque[str] = deque()
        self._notices: deque[str] = deque()

    @property
    def queue(self) -> tuple[str, ...]:
        return tuple(self._queue)

    def set_queue(self, texts: Sequence[str]) -> None:
        """Replace the queue, as edited by the person."""
        self._queue = deque(texts)
        self._emit(QueueChanged(queued=self.queue))

    def enqueue(self, text: str) -> None:
        self._queue.append(text)
        self._emit(QueueChanged(queued=self.queue))

    def next(self) -> str | None:
        """Take the first queued message."""
        if not self._queue:
            return None
        text = self._queue.popleft()
        self._emit(QueueChanged(queued=self.queue))
        return text

    def steer(self, text: str) -> None:
        self._steering.append(text)

    def steering_waits(self) -> bool:
        return bool(self._steering)

    def take_steering(self) -> list[str]:
        taken = list(self._steering)
        self._steering.clear()
        return taken

    def notify(self, text: str) -> None:
        """Show a notice now and keep it for the model's next request."""
        self.remember(text)
        self._emit(Noticed(kind="process", text=clean(text)))

    def remember(self, text: str) -> None:
        """Keep a note for the model's next request without showing it."""
        self._notices.append(text)

    def take_notices(self) -> list[str]:
        taken = list(self._notices)
        self._notices.clear()
        return taken
