"""The transition from the first frame to the live application, without flicker or lost keys.

It has two steps. With the application's first screen, the prompt takes text. Other keys wait until
conversation and panes are mounted as well; everything typed after them waits too, so that the order is kept.
Keys typed before that screen wait for it. The second step takes longer than a frame and waits for a pause in
typing.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message

from app.tui.conversation.typed_text import is_text
from app.tui.startup.skeleton import Skeleton
from app.tui.terminal.tty_input import SequenceKind, pieces, unfinished_length
from widgets.prompt.widget import Prompt

if TYPE_CHECKING:
    from textual.driver import Driver
    from textual.timer import Timer

    from app.tui.app_context import AppContext


_OTHER_SCREEN = "\x1b[?1049h"
_PIECES = "(?s)\x1b(?:\\[[0-?]*[ -/]*[@-~]|O.|.)?|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f]+"
_NAMED = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace"}

PAUSE, LONGEST = 0.15, 2.0
"""Seconds without a key press that count as a pause in typing, and the longest wait for one."""
EDITING = frozenset({"backspace", "delete", "left", "right", "up", "down", "home", "end"})
"""Keys that never move the focus away from the prompt."""
LONGEST_WAY = 0.5
"""Seconds after which the wait for a key's marker ends."""
LOOK = 0.02
"""Seconds between two checks for a pause."""


class PassedBy(Message):
    """A message posted after a key: when it arrives, everything typed before it has been handled."""


class Startup:
    """Holds back keys until the prompt can take them, and then opens the session.

    Keys are also held back later, because a key may move the focus to another widget or screen. While a key
    that is not text for the prompt is being handled, later ones wait until a marker has passed through the
    same queues.
    """

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self._keys: list[events.Event] | None = None
        self._text_goes = False
        self._late: Timer | None = None
        """The timer that ends the wait for a key whose marker was lost with its widget."""
        self._asked: object = None
        """The widget or screen that got the second marker, posted after the key's effects."""

    def hold(self, typed: bytes = b"") -> None:
        """Start holding back keys; `typed` was typed before the application read any key."""
        self._keys = list(as_events(without_answers(typed).decode("utf-8", "replace")))

    def hold_back(self, event: events.Event) -> bool:
        """Hold back the event if it must wait; return whether it was held back, to be handled later."""
        if self._keys is None or (self._text_goes and not self._keys and is_text(event)):
            return False
        self._keys.append(event)
        return True

    @property
    def is_over(self) -> bool:
        """True if no keys are held back."""
        return self._keys is None

    def arrange(self) -> None:
        """Start handing out keys once the first layout has reached the prompt."""
        self._app.session.prompt.call_later(self._app.call_later, self._settle)

    async def _settle(self) -> None:
        """Send the held text to the prompt, then open the session.

        Runs in order with the application's other events, so no later key overtakes those that wait.
        """
        if self._app.focused is None:
            self._app.session.set_focus(self._app.session.prompt)
        self._text_goes = True
        await self._send_held([])
        if not gc.isenabled():
            # The modules read so far stay alive: searching them for garbage would only delay the next key.
            gc.freeze()
            gc.enable()
        self._app.call_after_refresh(self._app.open_first_session)

    async def wait_for_idle_keys(self) -> None:
        """Wait for a short pause in typing. Returns at once if a key is held back."""
        end = time.monotonic() + LONGEST
        while not self._keys and time.monotonic() < min(end, self._app.last_key + PAUSE):  # noqa: ASYNC110
            await asyncio.sleep(LOOK)

    def follow(self, event: events.Event) -> None:
        """Hold back later keys until this one, just sent to the focused widget and not text, is handled."""
        if not isinstance(event, events.Key) or self._keys is not None:
            return
        part = self._app.focused
        in_text = isinstance(part, Prompt) and (event.is_printable or event.key in EDITING)
        if not in_text and (part or self._app.screen).post_message(PassedBy()):
            self._keys, self._text_goes, self._asked = [], False, None
            self._late = self._app.set_timer(LONGEST_WAY, self.complete)

    async def send_held_keys(self) -> None:
        """Send the held keys, because all keys before the marker have been handled. Called for `PassedBy`.

        What the last key requested, such as another focus, and the first step of what it started come first.
        """
        await asyncio.sleep(0)
        self._app.call_later(self._go_on)

    async def _go_on(self) -> None:
        if self._late is None or not self._app.screen_stack:
            return
        part = self._app.focused or self._app.screen
        if part is not self._asked and part.post_message(PassedBy()):
            # Once more, after what the key made its widget say, and a dialog that it opened must be mounted.
            self._asked = part
        else:
            self._late.stop()
            self._late = None
            await self._send_held(None)

    def complete(self) -> None:
        """Send all held keys in order with the application's other events, because everything is mounted."""
        self._late = None
        self._app.call_later(self._send_held, None)

    async def _send_held(self, kept: list[events.Event] | None) -> None:
        """Handle the held events; `kept` collects events held back once more, None holds back none."""
        held, self._keys = self._keys or [], kept
        for event in held:
            if not self._app.screen_stack:
                return  # the application closes
            await self._app.on_event(event)


def without_answers(typed: bytes) -> bytes:
    """Return the typed bytes without the terminal's answers to queries from earlier programs. Pure."""
    begun = unfinished_length(typed)
    said = (SequenceKind.ANSWER, SequenceKind.BROKEN)
    return b"".join(piece.data for piece in pieces(typed[: len(typed) - begun]) if piece.kind not in said)


def as_events(text: str) -> Iterator[events.Event]:
    """Turn characters typed before the terminal was set up into events: text as pastes, other keys as key
    presses.
    """
    for piece in re.findall(_PIECES, text):
        if piece in _NAMED:
            yield events.Key(_NAMED[piece], piece)
        elif "\x01" <= piece <= "\x1a":
            yield events.Key(f"ctrl+{chr(ord(piece) + 96)}", piece)
        elif piece >= " " and piece != "\x7f":
            yield events.Paste(piece)


def driver_for_frame(driver: type[Driver], frame: Skeleton | None) -> type[Driver]:
    """Return a subclass of `driver` that takes over the terminal showing `frame` without clearing it."""
    if frame is None or not frame.is_shown:
        return driver

    class TakingDriver(driver):
        def start_application_mode(self) -> None:
            self.first_input = frame.take_keys()
            super().start_application_mode()
            if frame.is_shown:
                frame.leave_to_app()
                # Restore the terminal settings from before the first frame, also while an editor runs.
                self.attrs_before = frame.before

        def write(self, data: str) -> None:
            # Some terminals clear the alternate screen when it is requested again.
            if data != _OTHER_SCREEN or not frame.is_shown:
                super().write(data)

    return TakingDriver
