"""The keys of commands as they arrive here, according to the table of terminals and when pressed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from app.cli.health.check import HealthFinding, HealthSubject

if TYPE_CHECKING:
    from app.tui.commands.keys import Keys
    from app.tui.terminal.terminals import Terminal
    from app.tui.terminal.tty_input import InputDecoder, Keyboard

PROTOCOL = "needs a terminal with the Kitty keyboard protocol, such as kitty, foot, Ghostty or WezTerm"
OWN = (
    "is {name}'s own key here: free it in its settings, or give the command another key with the setting keys"
)
PREFIXES = {"tmux": ("ctrl+b", "the prefix of tmux"), "screen": ("ctrl+a", "the command key of screen")}
_CURSOR = {"up": "A", "down": "B", "right": "C", "left": "D", "end": "F", "home": "H"}
_TILDE = {"insert": 2, "delete": 3, "pageup": 5, "pagedown": 6} | {
    f"f{at}": code for at, code in zip(range(5, 13), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)
}
_NAMED = {"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "space": " "}
_BITS = {"shift": 1, "alt": 2, "ctrl": 4, "super": 8}
SECONDS = 120.0
"""The longest wait in seconds for a key press."""


@dataclass(frozen=True, slots=True)
class KeyReport:
    """One key of a command, and how it arrives."""

    command: str
    name: str
    key: str
    arrives_as: str
    """The sequence that the terminal sends, with its control characters spelled out."""
    arrives: Literal["yes", "no", "perhaps"]
    hint: str = ""


def keys(subject: HealthSubject) -> HealthFinding:
    """Check that every command has a key that arrives in this terminal."""
    reports = list(key_reports(subject.environ, _bound(subject)))
    reached = {report.command for report in reports if report.arrives == "yes"}
    doubtful = [report for report in reports if report.command not in reached]
    commands = {report.command for report in reports}
    if not doubtful:
        return HealthFinding("keys", "ok", f"each of the {len(commands)} commands has a key that arrives")
    missing = sorted({report.command for report in doubtful})
    shown = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
    hints = "\n".join(sorted({_sentence(report) for report in doubtful})[:3])
    return HealthFinding("keys", "warn", f"may not arrive: {shown}", f"{hints}\nSee `hermes doctor keys`.")


def _bound(subject: HealthSubject) -> Keys:
    from agent.core.config.loader import load
    from agent.errors import ConfigError
    from app.tui.commands.keys import resolve

    try:
        return resolve(load(subject.home, subject.environ, subject.workspace).settings.keys)
    except ConfigError:  # the check of the settings says so
        return resolve({})


def _sentence(report: KeyReport) -> str:
    return f"{report.key} {report.hint}."


def key_reports(environ: Mapping[str, str], bound: Keys) -> Iterator[KeyReport]:
    """Yield how each key of each command arrives in the terminal that `environ` describes."""
    from app.tui.commands.keys import bindables
    from app.tui.terminal.terminals import known_terminal, multiplexer

    terminal, inside = known_terminal(environ), multiplexer(environ)
    for id, bindable in bindables().items():
        for key in bound.of(id):
            sequence, arrives, hint = _arrival(key, bound.of(id), terminal, inside)
            yield KeyReport(id, bindable.name, key, spelling(sequence), arrives, hint)


def _arrival(
    key: str, keys_of_command: Sequence[str], terminal: Terminal, inside: str
) -> tuple[str, Literal["yes", "no", "perhaps"], str]:
    protocol = "no" if inside else terminal.protocol
    sequence = key_sequence(key, protocol=protocol == "yes")
    if inside in PREFIXES and key == PREFIXES[inside][0]:
        return sequence, "perhaps", f"is {PREFIXES[inside][1]}: press it twice, or choose another one there"
    if key in terminal.takes and not inside:
        return sequence, "perhaps", OWN.format(name=terminal.name)
    if not sequence or not _means(sequence, keys_of_command):
        return sequence, "perhaps" if protocol == "perhaps" else "no", PROTOCOL
    if "alt" in key.split("+") and protocol != "yes" and terminal.alt != "yes":
        return sequence, terminal.alt, terminal.keys_hint or "needs a terminal in which alt sends escape"
    return sequence, "yes", ""


def _means(sequence: str, keys_of_command: Sequence[str]) -> bool:
    """Return whether Hermes decodes a sequence as one of these keys."""
    from app.tui.terminal.tty_input import InputDecoder, Keyboard

    return any(key in keys_of_command for key in _read(InputDecoder(), Keyboard(), sequence.encode()))


def _read(decoder: InputDecoder, keyboard: Keyboard, data: bytes) -> list[str]:
    from textual import events

    from app.tui.terminal.tty_input import add_key_sequences

    add_key_sequences()
    found = [*decoder.feed(data, 0.0), *decoder.idle(10.0)]
    return [event.key for event in keyboard.to_messages(found) if isinstance(event, events.Key)]


def key_sequence(key: str, *, protocol: bool) -> str:
    """Return what a terminal sends for a key, given by Textual's name, with or without the Kitty protocol.

    Empty if without it no sequence distinguishes the key. Pure.
    """
    from widgets.key_names import character_of

    *held, name = key.split("+") if key != "plus" else ["plus"]
    bits = sum(_BITS[each] for each in held)
    mark = f";{bits + 1}" if bits else ""
    if name in _CURSOR:
        return f"\x1b[{'1' + mark if mark else ''}{_CURSOR[name]}"
    if name in _TILDE:
        return f"\x1b[{_TILDE[name]}{mark}~"
    if name in ("f1", "f2", "f3", "f4"):
        return f"\x1b[1{mark}{'PQRS'[int(name[1]) - 1]}" if mark else f"\x1bO{'PQRS'[int(name[1]) - 1]}"
    character = _NAMED.get(name) or (name if len(name) == 1 else character_of(name) or "")
    if protocol:
        return f"\x1b[{ord(character)}{mark}u" if character else ""
    if key == "shift+tab":
        return "\x1b[Z"
    if bits & 1 or not character:
        return ""
    if bits & 4:
        is_control = character == " " or "@" <= character.upper() <= "_"
        character = "\x00" if character == " " else chr(ord(character.upper()) & 0x1F) if is_control else ""
    return ("\x1b" if bits & 2 and character else "") + character


def spelling(sequence: str) -> str:
    """Return a sequence with its control characters spelled out, such as `^P` and `ESC m`. Pure."""
    shown = "".join(
        " ESC "
        if each == "\x1b"
        else "^?"
        if each == "\x7f"
        else f"^{chr(ord(each) + 64)}"
        if each < " "
        else each
        for each in sequence
    )
    return " ".join(shown.split()) or ("space" if sequence else "")


def report_keys(subject: HealthSubject, *, as_json: bool, glyphs: bool) -> None:
    """Print how combined and function keys arrive, or all as JSON; on a terminal, then pressed keys."""
    import sys

    from app.cli.frame import say, say_json
    from app.tui.terminal.terminals import known_terminal
    from themes.states import glyph
    from widgets.key_names import shown_key

    reports = list(key_reports(subject.environ, _bound(subject)))
    if as_json:
        say_json([dataclasses.asdict(report) for report in reports], 2)
        return
    done, failed = glyph("done"), glyph("failed")
    marks = (
        {"yes": done, "perhaps": "?", "no": failed} if glyphs else {"yes": "ok", "perhaps": "? ", "no": "no"}
    )
    say(f"Keys in {known_terminal(subject.environ).name}:")
    for report in reports:
        if "+" in report.key or (report.key[:1] == "f" and report.key[1:].isdigit()):
            line = f"{marks[report.arrives]} {shown_key(report.key):14} {report.arrives_as:16} {report.name}"
            say(f"{line} – {report.hint}" if report.hint else line)
    if sys.stdin.isatty() and sys.stdout.isatty():
        _watch_keys(reports)


def _watch_keys(reports: list[KeyReport]) -> None:
    """Print each key that is pressed, until esc or a long pause. The terminal is restored.

    Keys are read on the alternate screen, as in the application: on the normal one many terminals use shift
    with arrows, home and end to scroll. The list of pressed keys is printed again afterwards.
    """
    import select
    import sys
    import termios
    import tty

    from app.cli.frame import say
    from app.tui.terminal.terminals import known_terminal, multiplexer
    from app.tui.terminal.tty_input import InputDecoder, Keyboard
    from app.tui.terminal.tty_modes import ALT_ASKED, ALT_OFF, KEYS, KEYS_BACK, takes_keys

    names = {report.key: report.name for report in reversed(reports)}
    number, before = sys.stdin.fileno(), termios.tcgetattr(sys.stdin.fileno())
    takes = takes_keys(os.environ)
    back = (KEYS_BACK if takes else "") + "\x1b[?1049l"
    pressed: list[str] = []
    asks = known_terminal(os.environ).asks_modes == "yes" and not multiplexer(os.environ)
    decoder = InputDecoder()
    keyboard = Keyboard(lambda: known_terminal(os.environ).doubles_escape == "yes")
    try:
        tty.setraw(number, termios.TCSANOW)
        sys.stdout.write("\x1b[?1049h\x1b[H" + (KEYS if takes else "") + (ALT_ASKED if asks else ""))
        sys.stdout.write("Press keys to see what arrives; esc ends.\r\n")
        sys.stdout.flush()
        while select.select([number], [], [], SECONDS)[0]:
            data = os.read(number, 4096)
            if data.endswith(b"\x1b") and select.select([number], [], [], 0.1)[0]:
                data += os.read(number, 4096)  # a terminal may send escape and the key by turns
            for mode in (mode for answer, mode in ALT_OFF.items() if answer.encode() in data):
                back += f"{mode}l"
                sys.stdout.write(f"{mode}h")
            found = _read(decoder, keyboard, data)
            for key in found:
                text = f"{key:20} {spelling(data.decode('utf-8', 'replace')):24} {names.get(key, '')}"
                pressed.append(text.rstrip())
                sys.stdout.write(f"{pressed[-1]}\r\n")
            sys.stdout.flush()
            if not data or "escape" in found:
                return
    finally:
        sys.stdout.write(back)
        sys.stdout.flush()
        termios.tcsetattr(number, termios.TCSANOW, before)
        for text in pressed:
            say(text)
