"""States of work, each with one glyph and one role, for every screen, the web page and plain output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

StateName = Literal[
    "pending", "working", "needs you", "done", "failed", "exit", "denied", "stopped", "skipped"
]


class WorkState(NamedTuple):
    """The appearance of a state. Skins change the colour of the role, never the glyph."""

    glyph: str
    role: str
    """The role of `themes.skin.ROLES` that colours the glyph."""
    ascii: str
    """The glyph on terminals whose font or encoding lacks the other one."""
    words: str = ""
    """Words that events and records use for it, besides its name."""


STATES: Mapping[StateName, WorkState] = {
    "pending": WorkState("○", "dim", "o", "paused, idle, queued"),
    "working": WorkState("▶", "accent", ">", "running, in_progress, starting"),
    "needs you": WorkState("◆", "warning", "?", "waiting, conflict, changed, sign-in, not agreed"),
    "done": WorkState("✓", "success", "+", "completed, enabled, used, ready, allowed, passed, ok"),
    "failed": WorkState("✗", "error", "x", "broken, error, parked"),
    "exit": WorkState("!", "warning", "!"),
    "denied": WorkState("⊘", "warning", "-", "refused, expired, nobody, blocked"),
    "stopped": WorkState("■", "warning", "#", "interrupted, stopping, budget"),
    "skipped": WorkState("·", "dim", ".", "cancelled, disabled, off, shadowed"),
}
"""Every state a screen can show; `exit` is a program that ended with a code other than zero."""

_BY_WORD: Mapping[str, StateName] = {
    word: name for name, state in STATES.items() for word in (name, *filter(None, state.words.split(", ")))
}

TO_ASCII = str.maketrans({state.glyph: state.ascii for name, state in STATES.items() if name != "skipped"})
"""For `str.translate`: every glyph as one ASCII character; the middle dot also separates words and stays."""

_POOR_TERMINALS = frozenset({"linux", "dumb", "vt52", "vt100", "vt102", "vt220"})


def draws_ascii_only(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal's font lacks the glyphs and blocks of different heights. Pure."""
    return environ.get("TERM", "") in _POOR_TERMINALS


def state_of(word: str | None, exit_code: int | None = None) -> WorkState:
    """Return the state that a word of an event or a record means; None means it is still at work.

    A call that is done with an exit code other than zero is `exit`. An unknown word is `skipped`.
    """
    name = _BY_WORD.get(word or "running", "skipped")
    return STATES["exit" if name == "done" and exit_code else name]


IN_USE = "●"
"""The mark of the entry in use in a list of branches, sessions, models or skins. Not a state."""
DOUBT = "▲"
"""The mark of a warning about something that works. Not a state."""
NEEDS_YOU = STATES["needs you"].glyph


def state_glyph(name: StateName) -> tuple[str, str]:
    """Return the glyph and the role of a state."""
    return STATES[name][:2]


def glyph(word: str | None, exit_code: int | None = None) -> str:
    """Return the glyph of the state that a word means, as `state_of` reads it."""
    return state_of(word, exit_code).glyph
