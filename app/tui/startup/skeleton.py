"""The first frame, shown while the program is loaded, and the terminal that it is shown on.

It appears some milliseconds after the start, in the layout and colours of the application's own screen. This
module therefore imports next to nothing. From the first byte on, the terminal neither echoes nor edits lines;
typed text is shown by `app.tui.startup.early_echo`, and all keys wait in order until the application takes
them. If the program ends before that (ctrl+c, a signal, an error), the terminal is restored.
"""

from __future__ import annotations

import os
import sys
import termios

from app.tui.startup import startup_theme_read
from app.tui.startup.early_echo import EarlyEcho, cells
from app.tui.startup.fast_args import fast_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SMALLEST = (20, 5)
"""The smallest size, in columns and rows, for more than a blank screen."""

ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h"
"""Alternate screen, no cursor, no wrapping, bracketed paste."""
LEAVE = "\x1b[0m\x1b[?2004l\x1b[?7h\x1b[?1049l\x1b[?25h"
_MODES_OFF = "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?1004l\x1b[?2048l"
ALL_OFF = _MODES_OFF + "\x1b[?1039l\x1b[?2031l\x1b[23;2t\x1b[<u"
"""Turns off all terminal modes of the application: reports of mouse, focus and size, and full key reports."""
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
"""Output between these is shown at once; terminals that do not know them ignore them."""

HINT = "⏎ send"
BESIDE = 2
"""The smallest number of blank columns between the text and the hint; as in `widgets.prompt.picture`."""
TEXT_FROM = 4
"""The column in which the prompt's text starts."""
SWITCH = 0.001
"""Seconds after which the thread that echoes keys may interrupt an import."""

INPUT, OUTPUT = 0, 2
"""The descriptors that Textual reads from and writes to."""


class Skeleton:
    """A terminal that shows the first frame: its original settings, and the keys typed before the frame."""

    def __init__(self) -> None:
        self.before = termios.tcgetattr(INPUT)
        """The original settings of the terminal."""
        self.typed = b""
        """Keys pressed before the terminal was set up, in order."""
        self._stands = False
        self._taken = False
        self._echo: EarlyEcho | None = None

    def show(self, look: startup_theme_read.Look, columns: int, rows: int) -> None:
        """Set up the terminal, show the first frame, and echo what is typed into it."""
        import signal

        # Not as an exception: another ctrl+c would interrupt what puts the terminal back after the first one.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                signal.signal(number, lambda number, _frame: self._end(128 + number))
        self._stands = self._taken = True
        self._silence()
        _write(ENTER + BEGIN + frame_output(look, columns, rows) + END)
        if columns >= SMALLEST[0] and rows >= SMALLEST[1]:
            self._listen(look, columns, rows)

    def _listen(self, look: startup_theme_read.Look, columns: int, rows: int) -> None:
        """Start echoing keys, beginning with those typed before the frame."""
        drawn = 1

        def draw(text: list[str]) -> None:
            nonlocal drawn
            whole, drawn = len(text) != drawn, len(text)
            _write(BEGIN + (frame_output if whole else prompt)(look, columns, rows, text) + END)

        self._echo = EarlyEcho(INPUT, columns - TEXT_FROM - 1, max(rows // 3, 1), draw)
        self._echo.type_in(self.typed)
        sys.setswitchinterval(SWITCH)
        try:
            self._echo.start()
        except (OSError, RuntimeError):
            self._echo = None  # keys wait in the terminal instead

    def take_keys(self) -> bytes:
        """End the echo; return the bytes typed since the frame appeared, as the terminal sent them."""
        return self._echo.stop() if self._echo is not None else b""

    def leave_to_app(self) -> None:
        """Leave the terminal to the application, which also leaves the alternate screen at its end."""
        self._stands = False

    @property
    def is_shown(self) -> bool:
        """True while the terminal shows only the first frame."""
        return self._stands

    def leave(self) -> None:
        """Restore the terminal. Repeated calls are harmless."""
        self.take_keys()
        if self._stands:
            self._stands = False
            _write(LEAVE)
        if self._taken:
            self._taken = False
            try:
                termios.tcsetattr(INPUT, termios.TCSANOW, self.before)
            except termios.error:
                return  # the terminal has gone

    def restore_in_emergency(self) -> None:
        """Restore the terminal, including modes that the application has set."""
        self._stands = True
        _write(ALL_OFF)
        self.leave()

    def _end(self, code: int) -> None:
        """Exit at once, on a signal that the application does not handle yet."""
        self.restore_in_emergency()
        os._exit(code)

    def _silence(self) -> None:
        """Turn off echo and line editing. ctrl+c still interrupts, as no other code handles it yet."""
        iflag, oflag, cflag, lflag, ispeed, ospeed, cc = self.before
        lflag &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
        iflag &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
        cc = list(cc)
        cc[termios.VMIN], cc[termios.VTIME] = 0, 0
        for stop in (termios.VSUSP, termios.VQUIT):
            cc[stop] = b"\0"
        termios.tcsetattr(INPUT, termios.TCSANOW, [iflag, oflag, cflag, lflag, ispeed, ospeed, cc])
        # Read the keys typed so far: return is a line feed in them, which later would count as ctrl+j.
        while piece := os.read(INPUT, 4096):
            self.typed += piece


_shown: Skeleton | None = None


def show(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Skeleton | None:
    """Show the first frame if the command line opens the full screen of a capable terminal; return it or
    None.

    Other command lines get no frame, as they may contain a mistake that must be reported.
    """
    global _shown
    options = fast_options(arguments)
    if is_dumb(environ) or options is None or not options.has_screen:
        return None
    if not all(os.isatty(number) for number in (0, 1, 2)) or startup_theme_read.wants_reader(environ):
        return None
    try:
        columns, rows = size(environ)
        _shown = Skeleton()
        _shown.show(startup_theme_read.read_look(arguments, environ), columns, rows)
    except (OSError, termios.error):
        leave()
        _shown = None
    return _shown


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal cannot show a frame, as its type is unknown or `dumb`. Pure."""
    return environ.get("TERM", "dumb") in ("", "dumb")


def drawn_frame() -> Skeleton | None:
    """Return the first frame that was shown in this process, or None."""
    return _shown


def leave() -> None:
    """Restore the terminal if a frame was shown."""
    if _shown is not None:
        _shown.leave()


def restore_in_emergency() -> None:
    """Restore the terminal in an emergency, if a frame was shown."""
    if _shown is not None:
        _shown.restore_in_emergency()


def let_end() -> int:
    """Let a second ctrl+c end the program without a traceback; return the exit code for the first one."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return 130


def size(environ: Mapping[str, str]) -> tuple[int, int]:
    """Return columns and rows from the environment or the terminal. Raises `OSError` without either."""
    terminal = os.get_terminal_size(1)
    told = (environ.get("COLUMNS", ""), environ.get("LINES", ""))
    columns, rows = (
        int(text) if text.isascii() and text.isdigit() and 0 < int(text[:6]) < 10_000 else seen
        for text, seen in zip(told, terminal, strict=True)
    )
    return columns, rows


def frame_output(look: startup_theme_read.Look, columns: int, rows: int, text: Sequence[str] = ("",)) -> str:
    """Return the first frame as output: background, top line, rules, the prompt with the rows of `text`."""
    parts = [f"\x1b[0;{look['ground']}m\x1b[H\x1b[2J"]
    if columns < SMALLEST[0] or rows < SMALLEST[1]:
        return parts[0]

    def write_at(row: int, column: int, style: str, text: str) -> None:
        parts.append(_at(row, column, style, text))

    foot = rows - len(text)
    write_at(1, 2, look["name_style"], look["name"])
    for row in (2, foot):
        write_at(row, 1, look["rule"], "─" * columns)
    return "".join(parts) + prompt(look, columns, rows, text)


def prompt(look: startup_theme_read.Look, columns: int, rows: int, text: Sequence[str]) -> str:
    """Return the first frame's prompt as output: the rows of `text` with the cursor after them."""
    first = rows - len(text) + 1
    parts = [_at(row, 1, look["surface"], " " * columns) for row in range(first, rows + 1)]
    parts.append(_at(first, 2, look["symbol_style"], look["symbol"]))
    parts += [_at(first + at, TEXT_FROM, look["surface"], row) for at, row in enumerate(text) if row]
    end = TEXT_FROM + cells(text[-1])
    parts.append(_at(rows, end, look["cursor"], " "))
    from_column = columns - len(HINT)
    if end + BESIDE < from_column and not text[0].startswith(("/", "!")):
        parts.append(_at(rows, from_column, look["hint"], HINT))
    return "".join([*parts, "\x1b[0m"])


def _at(row: int, column: int, style: str, text: str) -> str:
    return f"\x1b[{row};{column}H\x1b[0;{style}m{text}"


def _write(text: str) -> None:
    data = text.encode("utf-8", "replace")
    try:
        while data:
            data = data[os.write(OUTPUT, data) :]
    except OSError:
        return  # the terminal has gone; reading from it will report that
