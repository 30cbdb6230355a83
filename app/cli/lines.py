"""Events as lines of a plain terminal."""

from __future__ import annotations

from agent.events import ToolFinished
from themes.states import glyph
from tools.text.words import one_line


def call_line(event: ToolFinished) -> str:
    """Return a finished call on one line: `✓ read src/money.py 1–80 · 80 lines 0.1 s`."""
    display = event.display
    words = " · ".join(filter(None, (one_line(display.subject), one_line(display.summary))))
    return f"{glyph(event.outcome, display.exit_code)} {display.verb:<7}{words}  {event.seconds:.1f} s"
