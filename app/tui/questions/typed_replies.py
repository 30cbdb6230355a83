"""Replies read from text typed on a plain terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.events import Decision

if TYPE_CHECKING:
    from app.tui.questions.question_kind import PlainTerminal


async def read_choice(
    terminal: PlainTerminal, choices: Sequence[tuple[str, str]], more: str = "", empty: str = ""
) -> str | None:
    """Ask for one of some letters, the last of which is the default; return it, or what else was typed.

    With numbers the choices are a list, and the number is returned as its letter. `more` says what else may
    be typed, `empty` what happens without an answer.
    """
    if not terminal.numbers:
        letters = [f"[{letter}] {label}" for letter, label in choices[:-1]]
        letters.append(f"[{choices[-1][0].upper()}] {choices[-1][1]}{more}")
        return await terminal.read(f"  {'  '.join(letters)}: ")
    for number, (_, label) in enumerate(choices, 1):
        terminal.say(f"  {number}. {label[:1].upper()}{label[1:]}")
    text = await terminal.read(f"Number{more}; empty {empty}: ")
    given = int(text) if text and text.isascii() and text.isdigit() else 0
    return choices[given - 1][0] if 0 < given <= len(choices) else text


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
