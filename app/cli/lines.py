"""Events as lines of a plain terminal."""

from __future__ import annotations

from agent.events import ToolFinished
from tools.results import Outcome
from tools.text.words import one_line

GLYPHS: dict[Outcome, str] = {"done": "✓", "failed": "✗", "denied": "⊘", "interrupted": "■"}


def call_line(event: ToolFinished) -> str:
    """Return a finished call on one line: `✓ read src/money.py 1–80 · 80 lines 0.1 s`."""
    display = event.display
    words = " · ".join(filter(None, (one_line(display.subject), one_line(display.summary))))
    return f"{GLYPHS[event.outcome]} {display.verb:<7}{words}  {event.seconds:.1f} s"
