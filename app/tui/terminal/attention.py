"""Calls to a user who is away: the bell, a notification in the terminal or on the desktop, a sound."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from app.tui.terminal.terminals import is_remote, known_terminal, multiplexer
from tools.kit.umask import person_umask
from tools.text.words import one_line

CallKind = Literal["needs_you", "done", "failed"]
"""The reason for a call: a question waits, a turn ended well, or it failed."""
LONGEST = 200
WorkState = Literal["idle", "works", "asks"]
_STATES: Mapping[WorkState, str] = {"idle": "", "works": " works", "asks": " needs you"}
_SOUNDS = (
    ("canberra-gtk-play", "--id", "message"),
    ("paplay", "/usr/share/sounds/freedesktop/stereo/message.oga"),
    ("afplay", "/System/Library/Sounds/Glass.aiff"),
)
_ENVIRONMENT = (
    "PATH", "HOME", "LANG", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip


class Attention:
    """Calls a user who is away, once for each reason until they return.

    A user is away while another window has the focus. If the terminal does not report its focus, a user is
    away after `away_seconds` without a key press. `heard` receives the way of each call.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        environ: Mapping[str, str],
        heard: Callable[[str], None] = lambda _way: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._environ, self._heard, self._clock = write, environ, heard, clock
        self._focus: bool | None = None
        self._key = clock()
        self._called: set[CallKind] = set()
        self._title = ""
        self._progress = "0"
        self.enabled = True
        """True if calls are enabled in the settings."""
        self.away_seconds = 20.0
        self.ways: Mapping[CallKind, Sequence[str]] = {}
        """The ways of calling for each reason; the default is the bell and the terminal."""

    @property
    def away(self) -> bool:
        """True if the user is away, judged by the focus or, without reports of it, by key presses."""
        if self._focus is None:
            return self._clock() - self._key >= self.away_seconds
        return not self._focus

    def focus(self, here: bool) -> None:
        """Record that the terminal has gained or lost the focus."""
        self._focus = here
        if here:
            self._called.clear()

    def press(self) -> None:
        """Record a key press."""
        self._key = self._clock()
        self._called.clear()

    def show_state(self, state: WorkState, session: str) -> None:
        """Show state and session in the title of the window, and progress on terminals that support it."""
        title = f"hermes{_STATES[state]}{': ' if session else ''}{one_line(session)[:LONGEST]}"
        if title != self._title:
            self._title = title
            self._write(f"\x1b]2;{title}\x07")
        progress = {"idle": "0", "works": "3", "asks": "4;100"}[state]
        if progress != self._progress:
            self._progress = progress
            if known_terminal(self._environ).progress == "yes":
                self._write(f"\x1b]9;4;{progress}\x07")

    def show_again(self) -> None:
        """Show the title again on a terminal that may have lost it."""
        title, self._title, self._progress = self._title, "", "0"
        if title:
            self._title = title
            self._write(f"\x1b]2;{title}\x07")

    def call(self, kind: CallKind, text: str) -> bool:
        """Call the user if they are away and have this enabled; return whether a call was made."""
        ways = self.ways.get(kind, ("bell", "terminal"))
        if not (ways and self.enabled and self.away) or kind in self._called:
            return False
        self._called.add(kind)
        went = [way for way in ways if self._go(way, one_line(text)[:LONGEST])]
        for way in went:
            self._heard(way)
        return bool(went)

    def _go(self, way: str, text: str) -> bool:
        match way:
            case "bell":
                self._write("\a")
                return True
            case "terminal":
                sequence = terminal_notification(self._environ, text)
                self._write(sequence)
                return bool(sequence)
            case "desktop":
                return self._start(desktop_notification(self._environ, text))
            case _:
                return any(self._start(sound) for sound in _SOUNDS if not is_remote(self._environ))

    def _start(self, program: Sequence[str]) -> bool:
        """Start a program without waiting for it; return whether it exists."""
        environ = {name: self._environ[name] for name in _ENVIRONMENT if name in self._environ}
        found = shutil.which(program[0], path=environ.get("PATH")) if program else None
        if found is None:
            return False
        with suppress(OSError):
            subprocess.Popen(
                (found, *program[1:]),
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                umask=person_umask(),
            )
            return True
        return False


def terminal_notification(environ: Mapping[str, str], text: str) -> str:
    """Return the sequence that shows a notification in this terminal; empty if it supports none. Pure.

    In a multiplexer the sequence is wrapped to be passed on; tmux does so only with `allow-passthrough`.
    """
    inside, text = multiplexer(environ), one_line(text)[:LONGEST]
    match known_terminal(environ).notifies:
        case "99":
            sequence = f"\x1b]99;;{text}\x1b\\"
        case "777":
            sequence = f"\x1b]777;notify;Hermes;{text.replace(';', ',')}\x1b\\"
        case "9":
            # Some terminals read a number here as their own command: progress, folder, macro.
            sequence = f"\x1b]9;{'hermes: ' if text[:1].isdigit() else ''}{text}\x1b\\"
        case _:
            return ""
    if inside == "tmux":
        return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    # GNU screen would end the wrapping at the end of the string within.
    return "\x1bP" + sequence.replace("\x1b\\", "\a") + "\x1b\\" if inside == "screen" else sequence


def call_prospect(environ: Mapping[str, str]) -> str:
    """Return in words which calls reach the user in this terminal. Pure."""
    inside, terminal = multiplexer(environ), known_terminal(environ)
    shown = "the bell" if not terminal.notifies else f"the bell, and notifications (OSC {terminal.notifies})"
    if inside == "tmux":
        return f"{shown} with `set -g allow-passthrough on` in tmux"
    return shown if terminal.is_known or not terminal.notifies else f"{shown} if this terminal shows them"


def desktop_notification(environ: Mapping[str, str], text: str) -> tuple[str, ...]:
    """Return the command that shows a notification on the user's desktop; empty without a desktop. Pure."""
    if is_remote(environ):
        return ()
    if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"):
        return "notify-send", "--app-name=Hermes", "--", "Hermes", text
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return "osascript", "-e", f'display notification "{quoted}" with title "Hermes"'
