"""Helpers for all subcommands: adding actions and options, opening stores, printing and asking.

A subcommand's module has `DESCRIPTION` and `declare(parser)`. Each action sets a default `do`, which takes
the arguments and returns an exit code, or None for `ExitCode.DONE`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from themes.states import DOUBT, STATES, TO_ASCII
from tools.text.safe_text import reveal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from agent.core.config.loader import LoadedSettings
    from agent.core.home import Home
    from agent.core.store.store import Store

    Action = Callable[[argparse.Namespace], int | None]

_TONES = {"success": "32", "error": "31", "warning": "33", "accent": "36"}
STATE_COLOURS = {DOUBT: "33"} | {
    each.glyph: _TONES[each.role]
    for name, each in STATES.items()
    if each.role in _TONES and name != "exit"  # a line may begin with an exclamation mark
}
"""The terminal colours (SGR parameters) of state glyphs at the beginning of a line."""
ONE_OBJECT = "print one JSON object"
YES = "do not ask"


def add_actions(parser: argparse.ArgumentParser) -> Any:
    """Make a subcommand require an action; return the object that `add_action` adds the actions to."""
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True)


def add_action(
    actions: Any, name: str, summary: str, do: Action | None = None, *, json: str = ONE_OBJECT
) -> argparse.ArgumentParser:
    """Add an action with its help text; return its parser. With an empty `json` it has no `--json`."""
    action: argparse.ArgumentParser = actions.add_parser(
        name, help=summary, description=f"{summary[:1].upper()}{summary[1:]}."
    )
    if do is not None:
        action.set_defaults(do=do)
    if json:
        add_json(action, json)
    return action


def add_json(parser: argparse.ArgumentParser, about: str = "print JSON") -> None:
    """Add the option `--json` with `about` as its help text."""
    parser.add_argument("--json", action="store_true", dest="as_json", help=about)


def in_colour(stream: TextIO) -> bool:
    """Return whether text on `stream` may be coloured: on a terminal, without `NO_COLOR`."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return not plain and stream.isatty()


def whole_number(least: int = 0, most: int = 10**15 - 1) -> Callable[[str], int]:
    """Return an argparse type for whole numbers from `least` to `most`."""

    def parse(text: str) -> int:
        from argparse import ArgumentTypeError

        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise ArgumentTypeError("has to be a whole number")
        if int(text) < least:
            raise ArgumentTypeError(f"has to be {least:,} or more")
        if int(text) > most:
            raise ArgumentTypeError(f"has to be {most:,} or less")
        return int(text)

    return parse


positive = whole_number(1)


def name_list(text: str) -> list[str]:
    """Return the names in a comma-separated text; an argparse type. Raises `ArgumentTypeError` for none."""
    from argparse import ArgumentTypeError

    if not (names := [name.strip() for name in text.split(",") if name.strip()]):
        raise ArgumentTypeError("has to name something")
    return names


def load_settings(home: Home, folder: Path | None = None) -> LoadedSettings:
    """Load the settings for a folder, by default the current one. Raises `ConfigError`."""
    from agent.core.config.loader import load

    return load(home, dict(os.environ), folder or Path.cwd())


async def open_store(home: Home) -> Store:
    """Open the session store of a home, with the secrets to mask. Blocks briefly. Raises `StoreError`."""
    from agent.core.config.known_secrets import secrets_of_home
    from agent.core.store.store import Store

    return await Store.open(home.database, secrets=secrets_of_home())


def say(text: str, file: TextIO | None = None) -> None:
    """Print `text` without terminal control sequences; unencodable glyphs of states become ASCII."""
    stream = file or sys.stdout
    encoding = stream.encoding or "utf-8"
    shown = reveal(text)
    if not supports_glyphs(stream):
        shown = shown.translate(TO_ASCII)
    shown = shown.encode(encoding, "replace").decode(encoding)
    if shown.lstrip()[:1] in STATE_COLOURS and in_colour(stream):
        glyph = shown.lstrip()[0]
        shown = shown.replace(glyph, f"\x1b[{STATE_COLOURS[glyph]}m{glyph}\x1b[0m", 1)
    print(shown, file=stream)


def advise(text: str, file: TextIO | None = None) -> None:
    """Print a sentence in which commands of Hermes are spelled as the user can run them."""
    from tools.command_name import as_called

    say(as_called(text), file)


def say_json(value: Any, indent: int | None = None) -> None:
    """Print JSON with all non-ASCII escaped, as some of these characters control terminals."""
    import json

    print(json.dumps(value, indent=indent), flush=True)


def answer(args: argparse.Namespace, data: Any, words: str) -> None:
    """Print the outcome: `data` as JSON if `--json` was given, else `words`."""
    say_json(data) if args.as_json else say(words)
    sys.stdout.flush()


def say_path(args: argparse.Namespace, path: Path) -> None:
    """Print a path; with `--json` as an object."""
    answer(args, {"path": str(path)}, str(path))


def agrees(question: str, *, default: bool = False) -> bool:
    """Ask a yes/no question, to which `default` is the empty answer. The end of input and ctrl+c are a no."""
    print(f"{reveal(question)} [{'Y/n' if default else 'y/N'}] ", end="", file=sys.stderr, flush=True)
    try:
        line = sys.stdin.readline()
    except KeyboardInterrupt:
        return False
    return line.strip().lower() in ("y", "yes") or (default and line.endswith("\n") and not line.strip())


def agreed_by(args: argparse.Namespace, question: str, nobody: str) -> bool:
    """Return the user's answer, or True with `--yes`. Raises `ConfigError(nobody)` without a terminal."""
    from agent.errors import ConfigError

    if not args.yes and not sys.stdin.isatty():
        raise ConfigError(nobody)
    return args.yes or agrees(question)


def minute_of(seconds: float) -> str:
    """Return a time as text in this machine's time zone, to the minute."""
    import time

    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def moment(text: str | None, *, end: bool) -> float | None:
    """Parse a time option into epoch seconds; with `end`, a date means its end. Raises `ConfigError`."""
    import time

    from agent.errors import ConfigError
    from tools.results import ToolError
    from tools.session_search_tool import parse_time

    try:
        return None if text is None else parse_time(text, end=end, now=time.time())
    except ToolError as error:
        raise ConfigError(str(error)) from None


def supports_glyphs(file: TextIO | None = None) -> bool:
    """Return whether the stream's encoding can represent the glyphs of states."""
    try:
        "".join(map(chr, TO_ASCII)).encode((file or sys.stdout).encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
