"""Events as lines of text for a plain terminal."""

from __future__ import annotations

from agent.events import ToolFinished
from themes.states import STATES, glyph
from tools.text.words import one_line

WORDS = {state.glyph: f"{name}:" for name, state in STATES.items() if name != "skipped"}
WORDS |= {"┊": "note:", "▲": "caution:", "·": "", "❯": "Message:", "!": "failed:"}
"""Words that replace the glyphs at the beginning of a line, for screen readers."""


def spell_out(text: str) -> str:
    """Return the lines of a text with leading state glyphs replaced by words. Pure."""
    lines: list[str] = []
    for each in text.split("\n"):
        glyph, blank, rest = each.strip().partition(" ")
        if glyph == STATES["denied"].glyph:
            rest = rest.replace(" · Denied by ", " · by ", 1)
        lines.append(f"{WORDS[glyph]} {rest}".strip() if glyph in WORDS and (blank or glyph == "❯") else each)
    return "\n".join(lines)


def call_line(event: ToolFinished) -> str:
    """Return a finished call on one line: `✓ read src/money.py 1–80 · 80 lines 0.1 s`."""
    display = event.display
    words = " · ".join(filter(None, (one_line(display.subject), one_line(display.summary))))
    verb = f"{display.verb} "
    return f"{glyph(event.outcome, display.exit_code)} {verb:<7}{words}  {event.seconds:.1f} s"
