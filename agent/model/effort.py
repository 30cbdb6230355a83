"""Effort: how much models think, as a person says it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.model.protocol import Thinking
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.core.store.nodes import Node

WORDS = ("off", "low", "medium", "high")
DEFAULT = "default"
"""What `model.thinking` says; where that is unset, the provider's own."""
MOST_TOKENS = 1_000_000
_KEY = "effort"
KNOWN = f"{', '.join(WORDS)}, {DEFAULT} or a number of tokens"


@dataclass(slots=True)
class SessionEffort:
    """The level in force; agents without a level of their own follow it from their next request on."""

    configured: Thinking | None
    """What the settings say."""
    level: Thinking | None

    @classmethod
    def of(cls, configured: Thinking | None, path: Sequence[Node]) -> SessionEffort:
        """The level chosen last in a conversation, else the one of the settings."""
        effort = cls(configured, configured)
        for node in reversed(path):
            if isinstance(chosen := node.data.get(_KEY), str):
                with contextlib.suppress(ValueError):
                    effort.choose(chosen)
                break
        return effort

    def choose(self, text: str) -> None:
        """Change to a level. Raises `ValueError` for what is none."""
        wanted = text.strip().lower()
        self.level = self.configured if wanted == DEFAULT else parse_effort(wanted)

    @property
    def word(self) -> str:
        """The level in a word or two; empty for the provider's own."""
        return effort_word(self.level)

    @property
    def told(self) -> str:
        """A sentence about it."""
        return f"Thinking effort from the next request on: {self.word or 'as the provider likes'}."

    def record(self) -> dict[str, Any]:
        """What a node of the conversation keeps of a choice, for `of`."""
        chosen = DEFAULT if self.level == self.configured else str(self.level)
        return {"kind": "info", "to_model": False, _KEY: chosen}


def parse_effort(text: str) -> Thinking:
    """A word, or tokens of thought from 1 on (`12000`, `12,000` or `12k`). Raises `ValueError`."""
    word = text.strip().lower()
    if word in ("off", "low", "medium", "high"):
        return word
    digits, thousands = (word[:-1], 1_000) if word.endswith("k") else (word.replace(",", ""), 1)
    if not digits.isascii() or not digits.isdigit() or not 1 <= int(digits[:9]) * thousands <= MOST_TOKENS:
        raise ValueError(f"it takes {KNOWN}")
    return int(digits[:9]) * thousands


def effort_word(level: Thinking | None) -> str:
    """The level in a word or two; empty for the provider's own."""
    if isinstance(level, int):
        return plural(level, "token")
    return level or ""
