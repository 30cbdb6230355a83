"""A skin: semantic colours, symbols and words. Widgets use roles, never colours."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tools.kit.lazy_pattern import lazy_pattern

ROLES: Mapping[str, str] = {
    "background": "behind the conversation",
    "surface": "behind panes, dialogs and the prompt",
    "text": "what is read",
    "dim": "what matters less: durations, hints, line numbers",
    "accent": "what draws the eye: focus, selection bar, links to act on",
    "user": "the gutter and the words of the person",
    "reasoning": "what the model thinks aloud",
    "rule": "lines between regions",
    "success": "done",
    "warning": "worth a look, and the badge of a waiting question",
    "error": "failed or dangerous",
    "selection": "behind selected text",
    "match": "behind what a search found",
    "cursor": "the cursor of the prompt",
    "code_background": "behind code",
    "added": "added lines, foreground",
    "added_background": "added lines, background",
    "removed": "removed lines, foreground",
    "removed_background": "removed lines, background",
    "keyword": "code: keywords",
    "string": "code: texts",
    "number": "code: numbers and constants",
    "comment": "code: comments",
    "function": "code: functions and classes",
}
"""Every role a skin colours, and what it is for."""

NIGHT: Mapping[str, str] = {
    "background": "#14161b",
    "surface": "#1b1e25",
    "text": "#d7dae0",
    "dim": "#939aa4",
    "accent": "#7aa2f7",
    "user": "#9ece6a",
    "reasoning": "#9aa3b5",
    "rule": "#61687c",
    "success": "#7fbf6a",
    "warning": "#e0af68",
    "error": "#f7768e",
    "selection": "#2f3b57",
    "match": "#5a4a1f",
    "cursor": "#d7dae0",
    "code_background": "#191c22",
    "added": "#a6d189",
    "added_background": "#1d2b1f",
    "removed": "#f28fa0",
    "removed_background": "#33202a",
    "keyword": "#bb9af7",
    "string": "#9ece6a",
    "number": "#ff9e64",
    "comment": "#9099a8",
    "function": "#7dcfff",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skin:
    """The appearance of Hermes. These defaults replace missing parts of a skin file.

    Colours are `#rrggbb`, or names of the terminal's palette (`ansi_red`, `ansi_default` …) in skins for
    terminals with 16 colours.
    """

    name: str = "night"
    description: str = "Neutral dark; the default."
    dark: bool = True
    colors: Mapping[str, str] = field(default_factory=lambda: dict(NIGHT))
    """Every role of `ROLES`."""
    prompt_symbol: str = "❯"
    spinner: tuple[str, ...] = tuple("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
    verbs: tuple[str, ...] = ("Thinking",)
    """Words that the status bar shows while the model works."""
    agent_name: str = "hermes"
    welcome: str = "What should I do?"
    goodbye: str = "Until next time."
    tool_icons: Mapping[str, str] = field(default_factory=dict)
    """Glyphs by tool name, drawn before the verb of a call."""
    faces: tuple[str, ...] = ()
    """Shown beside the verb in the status bar while the model works; never in the gutter."""
    banner: str = ""
    """Art for the empty conversation; plain text."""


_SEQUENCE = lazy_pattern(
    "\x1b\\[[0-?]*[ -/]*[@-~]?"
    "|\x9b[0-?]*[ -/]*[@-~]?"
    "|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[ -/]*[0-~]?"
)
# Private and unassigned characters stay: icon fonts live there, and emoji newer than this Python.
_DROPPED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def plain(text: str, *, lines: bool = False) -> str:
    """Return `text` without escape sequences, control characters and invisible marks.

    With `lines`, line feeds are kept; other white space becomes a blank.
    """
    text = _SEQUENCE.sub("", text.replace("\r\n", "\n")).expandtabs(4)
    if not lines:
        text = " ".join(text.split("\n"))
    return "".join(
        character
        for character in text
        if character == "\n" or unicodedata.category(character) not in _DROPPED
    )


def short_line(text: str, limit: int = 40) -> str:
    """Return `text` as one short, safe line, for use in a message."""
    line = " ".join(plain(text[: limit * 4]).split())
    return line if len(line) <= limit else line[:limit] + "…"


class SkinProblem(NamedTuple):
    """One problem of a skin file. `str()` is `file:line: sentence`."""

    origin: str
    """The file's name; `skin` if there is no such skin."""
    message: str
    line: int | None = None

    def __str__(self) -> str:
        where = f":{self.line}" if self.line else ""
        return f"{short_line(self.origin, 120)}{where}: {self.message}"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?` if one of `known` is similar to `word`, else a full stop."""
    from difflib import get_close_matches

    close = get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean `{close[0]}`?" if close else "."
