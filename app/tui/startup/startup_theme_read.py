"""Reading the saved look of the first frame, so that a start need not read settings and skins.

A small file in the home folder holds the few styles of the first frame and the skin itself, both validated
when they were written. The file is valid only while all its sources are unchanged: settings, skins, the
program, and the environment's information about the terminal. It holds only looks: if it is missing or
invalid, the default skin appears for a moment. Like `app.tui.startup.skeleton`, which uses it, this module
imports next to nothing.
"""

from __future__ import annotations

import os
from binascii import crc32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Look = dict[str, str]
"""Styles (SGR parameters) and texts of the first frame, by name."""

NAME = "first-frame"
HEADING = "hermes first frame 1"
LARGEST = 64_000
"""The largest size in bytes; a larger file was not written by Hermes."""

PLAIN: Look = {
    "ground": "",
    "name": "hermes",
    "name_style": "1",
    "rule": "2",
    "surface": "",
    "symbol": "❯",
    "symbol_style": "1",
    "cursor": "7",
    "hint": "2",
}
"""The look for terminals with few or unknown colours, and for users who want no colours."""

NIGHT: Look = PLAIN | {
    "ground": "38;2;215;218;224;48;2;20;22;27",
    "name_style": "1;38;2;122;162;247;48;2;20;22;27",
    "rule": "38;2;97;104;124;48;2;20;22;27",
    "surface": "38;2;215;218;224;48;2;27;30;37",
    "symbol_style": "1;38;2;158;206;106;48;2;27;30;37",
    "cursor": "38;2;27;30;37;48;2;215;218;224",
    "hint": "38;2;147;154;164;48;2;27;30;37",
}
"""The look of the default skin in true colour."""

WORDS = {"name": 24, "symbol": 2}
"""The entries that are texts, with their greatest length."""


def default_look(environ: Mapping[str, str]) -> Look:
    """Return the look for a start without a saved one: `NIGHT` on a true-colour terminal, else `PLAIN`."""
    many = environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit")
    return NIGHT if many and not environ.get("NO_COLOR") else PLAIN


def read_look(arguments: Sequence[str], environ: Mapping[str, str]) -> Look:
    """Return the saved look of the first frame if it is still valid, else `default_look`."""
    lines = remembered_lines(arguments, environ)
    look: Look = {}
    for line in lines[:-1]:
        name, _equals, look[name] = line.partition("=")
    return look if is_look(look) else default_look(environ)


def remembered_lines(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the saved lines after the header, the skin as JSON last; empty if missing or outdated."""
    place = path(environ)
    try:
        with open(place, "rb") as file:  # noqa: PTH123 - pathlib takes longer to import than this takes
            content = file.read(LARGEST + 1)
    except (OSError, ValueError):
        return []
    lines = content.decode("utf-8", "replace").split("\n") if len(content) <= LARGEST else []
    if len(lines) < 4 or lines[:2] != [HEADING, signature(arguments, environ)]:
        return []
    return lines[2:]


def is_look(look: Look) -> bool:
    """Return whether the look has all entries and contains nothing but short texts and SGR parameters."""
    if look.keys() != PLAIN.keys():
        return False
    words = all(len(look[name]) <= most and look[name].isprintable() for name, most in WORDS.items())
    styles = "".join(style for name, style in look.items() if name not in WORDS)
    return words and not styles.strip("0123456789;")


def home_of(environ: Mapping[str, str]) -> str:
    """Return the home folder's path, as `agent.core.home` determines it."""
    named = environ.get("HERMES_HOME", "")
    return os.path.expanduser(named) if named else os.path.expanduser("~/.hermes")  # noqa: PTH111


def wants_reader(environ: Mapping[str, str]) -> bool:
    """Return whether the settings ask for output for a screen reader, or else the environment announces one.

    Signs in the environment are `ACCESSIBLE`, as in other programs, and Speakup on a Linux console.
    """
    try:
        with open(f"{home_of(environ)}/config.yaml", encoding="utf-8") as file:  # noqa: PTH123 - as above
            lines = file.read(1 << 20).split("\n")
    except (OSError, ValueError):
        lines = []
    for text in lines:
        before, key, value = text.partition("reader:")
        if key and before.strip(" {\"'") in ("", "display:", "display: {"):
            value = value.partition("#")[0].strip(" \"'},\r")
            if value in ("true", "false"):
                return value == "true"
    console = environ.get("TERM") == "linux" and os.path.isdir("/sys/accessibility/speakup")  # noqa: PTH112
    return environ.get("ACCESSIBLE", "") not in ("", "0", "false", "no") or console


def path(environ: Mapping[str, str]) -> str:
    """Return the path of the saved look."""
    return os.path.join(home_of(environ), NAME)  # noqa: PTH118


def folder_of(arguments: Sequence[str]) -> str:
    """Return the folder that `--cwd` names, or the current one."""
    for index, word in enumerate(arguments):
        if word.startswith("--cwd="):
            return word[6:]
        if word == "--cwd" and index + 1 < len(arguments):
            return arguments[index + 1]
    return "."


def signature(arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return a short text that changes whenever a source of the look does."""
    home = home_of(environ)
    skins = os.path.join(home, "skins")  # noqa: PTH118
    here = os.path.dirname(__file__)  # noqa: PTH120
    try:
        own = [os.path.join(skins, name) for name in sorted(os.listdir(skins))]  # noqa: PTH118, PTH208
    except (OSError, ValueError):
        own = []
    places = (
        f"{home}/config.yaml",
        f"{home}/.env",
        f"{home}/trust.json",
        f"{folder_of(arguments)}/.hermes/config.yaml",
        __file__,
        f"{here}/../themes/builtin",
        *own,
    )
    told = ("TERM", "COLORTERM", "NO_COLOR", "TEXTUAL_COLOR_SYSTEM", "TERM_PROGRAM")
    facts = [[environ.get(name) for name in told]]
    facts += [sorted(item for item in environ.items() if item[0].startswith("HERMES_"))]
    facts += [_stamp(place) for place in places]
    return f"{crc32(repr(facts).encode('utf-8', 'surrogateescape')):08x}"


def _stamp(place: str) -> list[object]:
    try:
        seen = os.stat(place)  # noqa: PTH116
    except (OSError, ValueError):
        return [place]
    return [place, seen.st_mtime_ns, seen.st_size, seen.st_ino]
