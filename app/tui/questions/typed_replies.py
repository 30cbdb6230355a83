"""Replies read from text typed on a plain terminal."""

from __future__ import annotations

from agent.events import Decision


def decision(text: str | None, lasting: str) -> Decision:
    """Parse typed text as a decision. `lasting` lists the accepted letters for a yes that lasts."""
    match (text or "n").strip().lower():
        case "y" | "yes":
            return Decision("once")
        case "s" if "s" in lasting:
            return Decision("session")
        case "a" | "always" if "a" in lasting:
            return Decision("always")
        case "s" | "a" | "always" | "n" | "no" | "":
            return Decision("deny")
        case _:
            return Decision("deny", (text or "").strip())
