"""A driver that adapts to changes of its terminal: its size, another terminal in its place, modes it lost.

A program keeps running while the user is elsewhere: dtach, tmux and screen attach another terminal, a shell
stops and continues it. So a signal about the size is believed whatever the terminal reported before, and
after a while modes are set and queries sent again. All modes are reset at the end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from textual import events
from textual.driver import Driver
from textual.geometry import Size
from textual.message import Message

from app.tui.terminal.terminals import known_terminal, multiplexer
from tools.kit.lazy_pattern import lazy_pattern
from widgets.painting.clusters import place_clusters

SETTLE = 1.0
"""Seconds after a signal about the size within which a terminal that reports sizes has done so."""
QUESTION_LENGTH = 64
SYNC_START, SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
MOUSE_MODES = {
    "full": "\x1b[?1000h\x1b[?1003h\x1b[?1006h",
    "wheel": "\x1b[?1003l\x1b[?1000h\x1b[?1006h",
    "off": "\x1b[?1003l\x1b[?1000l",
}
"""The sequences for each value of `display.mouse`: reports of every move, of buttons and wheel, or none."""
KEYS_OF_TEXTUAL, KEYS, KEYS_BACK = "\x1b[>25u", "\x1b[>29u", "\x1b[<u"
"""Flags of the Kitty protocol: those Textual requests; the same with alternate keys; the earlier ones."""
ALT_ASKED = "\x1b[?1036$p\x1b[?1039$p"
ALT_OFF = {f"\x1b[?{mode};2$y": f"\x1b[?{mode}" for mode in (1036, 1039)}
"""The modes of xterm in which meta and alt send escape; without them alt and a letter write another letter.
Where meta and alt are one key, only the mode for meta counts. By the answer that a mode is off: how it is set
or reset.
"""
_QUESTION = lazy_pattern(r"\x1b(?:\[(?:\?\d+\$p|\?u|\?996n|[>=]?\d*c|>\d*q|\d+t|6n)|\]\d+;(?:\d+;)?\?)")


PAGE_REPORTS, NO_PAGE_REPORTS = "\x1b[?2031h", "\x1b[?2031l"
"""Turn reports of a change to dark or light colours on and off; most terminals ignore these sequences."""
TITLE, TITLE_KEPT, TITLE_BACK = "\x1b]2;", "\x1b[22;2t", "\x1b[23;2t"
"""Sets the title of the window; saves it on the terminal's stack, and restores it from there."""
PROGRESS, NO_PROGRESS = "\x1b]9;4;", "\x1b]9;4;0\x07"
DOUBTFUL = ("STY", "TERMINOLOGY", "KONSOLE_VERSION")
"""Variables of terminals that may take `KEYS` for something else; the table decides whether they get it."""
LATER = 0.4
"""Seconds after the start at which the table is read, as reading it would delay the first frame."""


def prints_questions(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal prints queries about modes on its screen instead of answering.

    It is known from the environment, as the first queries are sent before the table is read.
    """
    if environ.get("KONSOLE_VERSION"):
        return False
    is_qterminal = environ.get("WINDOWID") == "0" and bool(environ.get("COLORFGBG"))
    return is_qterminal or environ.get("TERM_PROGRAM") == "Apple_Terminal" or environ.get("TERM") == "linux"


def takes_keys(environ: Mapping[str, str]) -> bool:
    """Return whether the Kitty protocol may be requested in this terminal."""
    return known_terminal(environ).sets_keys == "yes" and multiplexer(environ) != "screen"


GUARD = r"""while read -r line; do last=$line; done
[ "$last" ] || exit
trap '' TTOU
{ sleep .7 || sleep 1; kill -9 0; } </dev/null >/dev/null &
if [ -r /proc/$$/stat ]; then read -r x x x x x x x front x </proc/$$/stat
else front=$(ps -o tpgid= -p $$); fi
for group; do [ "$group" -eq $front ] && { printf %b "$last"; stty sane <&1; break; }; done
kill -9 0"""
"""A shell script that reads lines with the sequences that restore the terminal, and prints the last one when
its input ends, as after `kill -9`. An empty line means that nothing must be restored.

It prints only while one of the process groups in its arguments is in the foreground, as another program may
draw by then, and ends within a second on a terminal that does not read. It is a process group of its own,
which it ends as a whole, in the session of the program: only there is the foreground group known.
"""
KILLED = "Hermes was killed from outside; `hermes --continue` takes the session up where it was.\r\n"
_RESET = "".join(f"\x1b[?{mode}l" for mode in (2048, 1016, 2004, 1004, 1015, 1006, 1003, 1000, 2026))
_SHOWN_AGAIN = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l\r\n"


def start_guard(output: int) -> subprocess.Popen[bytes] | None:
    """Start the script that restores the terminal after a crash; None without a terminal or a shell."""
    if not (os.isatty(0) and os.isatty(output)):
        return None
    environ = {"PATH": os.environ.get("PATH", os.defpath)}
    with suppress(OSError):
        return subprocess.Popen(
            ("/bin/sh", "-c", GUARD, "sh", *map(str, _groups(output))),
            stdin=subprocess.PIPE, stdout=output, stderr=subprocess.DEVNULL,
            env=environ, cwd="/", process_group=0, umask=0o077,
        )  # fmt: skip
    return None


def _groups(terminal: int) -> set[int]:
    """Return the process groups of this program, its shell and its parent; {-1} if it has no terminal."""
    try:
        os.tcgetpgrp(terminal)
    except OSError:
        return {-1}
    groups = {os.getpgrp(), os.getsid(0)}
    with suppress(OSError):
        groups.add(os.getpgid(os.getppid()))
    return groups - {0}


def driver_with_modes(
    driver: type[Driver],
    environ: Mapping[str, str],
    mouse: Callable[[], str],
    renewed: Callable[[], None],
) -> type[Driver]:
    """Return a subclass of `driver`, one from `driver_with_output`, that adapts to changes of its terminal.

    `mouse` returns the value of `display.mouse`. `renewed` is called on the event loop when another terminal
    may have been attached; it must draw everything again.
    """
    if not hasattr(driver, "run_input_thread"):
        return driver
    is_asked = not prints_questions(environ)
    is_doubtful = not is_asked or any(environ.get(name) for name in DOUBTFUL)
    # Parts of Textual's driver that have no types in its base class.
    base = cast(Any, driver)

    class FollowingDriver(base):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._loop_of_app = asyncio.get_running_loop()
            self._timer: asyncio.TimerHandle | None = None
            self._runs = self._in_frame = False
            self._waiting: list[str] = []
            """Queries that wait for the end of a frame, as some terminals hold back answers until then."""
            self._seen = (0, 0)
            self._report = (0.0, Size())
            self._is_another = self._has_keys = self._has_page = False
            self._alt_back = ""
            self._has_title = self._has_progress = False
            self._sets_keys, self._asks_modes = not is_doubtful, False
            self._task: asyncio.Task[None] | None = None
            self._guard: subprocess.Popen[bytes] | None = None

        def start_application_mode(self) -> None:
            if self._runs:  # continued without having been suspended, as after `kill -STOP`
                self._loop_of_app.call_soon_threadsafe(self._begin_again)
                return
            self._runs, self._seen = True, self._get_terminal_size()
            super().start_application_mode()
            self._loop_of_app.call_soon_threadsafe(self._learn_later)
            signal.signal(signal.SIGWINCH, lambda *_: self._loop_of_app.call_soon_threadsafe(self._resize))

        def stop_application_mode(self) -> None:
            self._runs = self._in_frame = False
            self._waiting.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            for is_set, mode in (
                (self._alt_back, self._alt_back),
                (self._has_page, NO_PAGE_REPORTS),
                (self._has_progress, NO_PROGRESS),
                (self._has_title, TITLE_BACK),
            ):
                if is_set:
                    self.write(mode)
            self._has_page = self._has_progress = self._has_title = False
            self._alt_back = ""
            self._tell_guard()
            super().stop_application_mode()
            self._in_band_window_resize = self._mouse_pixels = False

        def close(self) -> None:
            self._end_guard()
            super().close()

        def report_lost_terminal(self) -> None:
            self._end_guard()
            super().report_lost_terminal()

        def write(self, data: str) -> None:
            if self._in_frame and len(data) < QUESTION_LENGTH and _QUESTION.search(data):
                self._waiting.append(data)
                return
            if data in (KEYS_OF_TEXTUAL, KEYS_BACK):
                self._push_keys(on=data != KEYS_BACK)
                return
            self._has_page |= data == PAGE_REPORTS
            self._has_progress |= data.startswith(PROGRESS)
            if data.startswith(TITLE) and not self._has_title:
                self._has_title = True
                super().write(TITLE_KEPT)
                self._tell_guard()
            super().write(place_clusters(data))
            if data in (SYNC_START, SYNC_END):
                self._in_frame = data == SYNC_START
                while self._waiting and not self._in_frame:
                    super().write(self._waiting.pop(0))

        def process_message(self, message: Message) -> None:
            if isinstance(message, events.Resize):  # a report of the terminal
                self._report = (time.monotonic(), message.size)
            super().process_message(message)

        def take_answer(self, answer: str) -> None:
            if answer in ALT_OFF:
                self._loop_of_app.call_soon_threadsafe(self._set_alt, ALT_OFF[answer])
            super().take_answer(answer)

        def _set_alt(self, mode: str) -> None:
            if self._runs:
                self._alt_back += f"{mode}l"
                self.write(f"{mode}h")
                self._tell_guard()

        def _push_keys(self, *, on: bool) -> None:
            """Request the Kitty protocol, or restore the earlier flags."""
            if self._has_keys:
                super().write(KEYS_BACK)
            self._has_keys = on and self._sets_keys
            if self._has_keys:
                super().write(KEYS)

        def _learn_later(self) -> None:
            if self._task is None or self._task.done():
                self._task = self._loop_of_app.create_task(self._learn())

        async def _learn(self) -> None:
            await asyncio.sleep(LATER)
            terminal = await asyncio.to_thread(known_terminal, environ)
            self._sets_keys = takes_keys(environ)
            self._asks_modes = terminal.asks_modes == "yes" and not multiplexer(environ)
            if self._runs and self._sets_keys != self._has_keys:
                self._push_keys(on=True)
            self._ask_modes()
            if self._guard is None:
                self._guard = await asyncio.to_thread(start_guard, self._file.fileno())
            self._tell_guard()

        def _end_guard(self) -> None:
            """End the guard without output; one that is being started ends when its object is deleted."""
            if self._task is not None:
                self._task.cancel()
            guard, self._guard, self._task = self._guard, None, None
            if guard is not None and guard.stdin is not None:
                with suppress(OSError):
                    os.write(guard.stdin.fileno(), b"\n")
                guard.stdin.close()

        def _tell_guard(self) -> None:
            """Send the guard the sequences that would restore the terminal now; none while it is unused."""
            if self._guard is None or self._guard.stdin is None:
                return
            parts = (
                (KEYS_BACK, self._has_keys),
                (self._alt_back, self._alt_back),
                (NO_PAGE_REPORTS, self._has_page),
                (NO_PROGRESS, self._has_progress),
                (TITLE_BACK, self._has_title),
            )
            more = "".join(mode for mode, is_set in parts if is_set)
            line = f"{_RESET}{more}{_SHOWN_AGAIN}{KILLED}" if self._runs else ""
            coded = "".join(each if " " <= each <= "~" else f"\\0{ord(each):03o}" for each in line)
            with suppress(OSError):
                os.write(self._guard.stdin.fileno(), f"{coded}\n".encode())

        def _ask_modes(self) -> None:
            if self._runs and self._asks_modes:
                self.write(ALT_ASKED)

        def _request_terminal_sync_mode_support(self) -> None:
            if is_asked:
                super()._request_terminal_sync_mode_support()

        def _query_in_band_window_resize(self) -> None:
            if is_asked:
                super()._query_in_band_window_resize()

        def _enable_mouse_support(self) -> None:
            super()._enable_mouse_support()
            if mouse() != "full":
                self.write(MOUSE_MODES[mouse()])

        def _disable_mouse_support(self) -> None:
            super()._disable_mouse_support()
            if self._mouse_pixels:
                self.write("\x1b[?1016l")

        def _resize(self) -> None:
            """Apply the new size after a signal, and later check whether another terminal is attached."""
            if not self._runs:
                return
            size = self._get_terminal_size()
            # A signal without another size comes from a program that attached another terminal.
            self._is_another |= size == self._seen and self._timer is None
            self._seen = size
            self._tell_size()
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop_of_app.call_later(SETTLE, self._settle)

        def _tell_size(self) -> None:
            if self._seen != tuple(self._app.size):
                super().process_message(events.Resize(Size(*self._seen), Size(*self._seen)))

        def _settle(self) -> None:
            self._timer = None
            when, size = self._report
            is_silent = size != self._seen or time.monotonic() - when > 2 * SETTLE
            if self._is_another or (self._in_band_window_resize and is_silent):
                self._begin_again()
            else:
                self._set_modes()

        def _begin_again(self) -> None:
            """Set modes, send queries and draw as at the start, because another terminal may be attached."""
            if not self._runs:
                return
            self._is_another, self._seen = False, self._get_terminal_size()
            if self._in_band_window_resize or self._mouse_pixels:
                self._in_band_window_resize = False
                self.keyboard.forget_pixels()
            self.write("\x1b[?1049h")
            self._set_modes()
            self._request_terminal_sync_mode_support()
            self._query_in_band_window_resize()
            self._ask_modes()
            self._tell_size()
            self._app.call_later(renewed)

        def _set_modes(self) -> None:
            """Set the modes again that a terminal may have lost; for others this changes nothing."""
            self._disable_mouse_support()
            self._mouse_pixels = self._mouse_pixels and self._in_band_window_resize
            self._enable_mouse_support()
            if self._mouse_pixels:
                self._enable_mouse_pixels()
            for mode in ("\x1b[?25l", "\x1b[?1004h", KEYS_OF_TEXTUAL):
                self.write(mode)
            self._enable_bracketed_paste()
            self._disable_line_wrap()

    return FollowingDriver
