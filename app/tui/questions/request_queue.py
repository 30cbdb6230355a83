"""A queue of the engine's requests, which shows one dialog at a time once the user pauses in typing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from agent.events import Asked

Request = Asked
Reply = Any
"""The reply to a question; its type depends on the kind."""

TYPING_PAUSE = 0.6
"""Seconds without a key press before a dialog may open."""


class Stage(Protocol):
    """The screen on which dialogs are shown."""

    def typing_for(self) -> float:
        """Return the seconds since the last key press."""
        ...

    def later(self, delay: float, act: Callable[[], object]) -> None:
        """Call `act` after `delay` seconds."""
        ...

    def show(self, request: Request, done: Callable[[Reply | None], None]) -> Callable[[], None]:
        """Open the dialog of a request; return a function that closes it. `done` gets the reply or None."""
        ...

    def waiting(self, count: int) -> None:
        """Show the number of requests that are waiting or visible."""
        ...


class RequestQueue:
    """The open requests, oldest first. Each ends exactly once, by the user or by the engine."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._waiting: deque[Request] = deque()
        self._shown: Request | None = None
        self._close: Callable[[], None] = lambda: None
        self._scheduled = False

    def __len__(self) -> int:
        return len(self._waiting) + (self._shown is not None)

    def add(self, request: Request) -> None:
        """Queue a request; it is shown after earlier ones, once the user pauses in typing."""
        self._waiting.append(request)
        self._stage.waiting(len(self))
        self._advance()

    def close_request(self, id: str) -> None:
        """Remove a request that the engine has ended, and close its dialog if it is open."""
        self._waiting = deque(request for request in self._waiting if request.id != id)
        if self._shown is not None and self._shown.id == id:
            self._shown = None
            self._close()
        self._stage.waiting(len(self))
        self._advance()

    def show_now(self) -> None:
        """Show the next request at once, without waiting for a pause in typing."""
        self._advance(at_once=True)

    def clear(self) -> None:
        """Remove all requests, because the engine that asked has ended."""
        self._waiting.clear()
        if self._shown is not None:
            self._shown = None
            self._close()
        self._stage.waiting(0)

    def _advance(self, *, at_once: bool = False) -> None:
        if self._shown is not None or (self._scheduled and not at_once):
            return
        while self._waiting and self._waiting[0].reply.done():
            self._waiting.popleft()
        if not self._waiting:
            return
        pause = TYPING_PAUSE - self._stage.typing_for()
        if pause > 0 and not at_once:
            self._scheduled = True
            self._stage.later(pause, self._retry)
            return
        request = self._waiting.popleft()
        self._shown = request
        self._close = self._stage.show(request, lambda outcome: self._answer(request, outcome))

    def _retry(self) -> None:
        self._scheduled = False
        self._advance()

    def _answer(self, request: Request, outcome: Reply | None) -> None:
        if self._shown is request:
            self._shown = None
        if not request.reply.done():
            fits = isinstance(outcome, type(request.cancelled))
            request.reply.set_result(outcome if fits else request.cancelled)
        self._stage.waiting(len(self))
        self._advance()
