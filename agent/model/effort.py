"""Levels of thinking effort, and the request fields for them in each family of models."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.core.store.stored_path import labelled
from agent.model.dialect import Dialect
from agent.model.protocol import Thinking
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.core.store.nodes import Node


WORDS = ("off", "low", "medium", "high")
DEFAULT = "default"
"""The word that selects `model.thinking` or, if that is not set, the provider's default."""
MOST_TOKENS = 1_000_000
_KEY = "effort"
KNOWN = f"{', '.join(WORDS)}, {DEFAULT} or a number of tokens"


@dataclass(slots=True)
class SessionEffort:
    """The effort of a session. Agents without their own use a new level from their next request on."""

    configured: Thinking | None
    """The level in the settings."""
    level: Thinking | None

    @classmethod
    def of(cls, configured: Thinking | None, path: Sequence[Node]) -> SessionEffort:
        """Return the effort chosen last in a conversation or, without one, that in the settings."""
        effort = cls(configured, configured)
        for node in reversed(labelled(path, "notice")):
            if isinstance(chosen := node.data.get(_KEY), str):
                with contextlib.suppress(ValueError):
                    effort.choose(chosen)
                break
        return effort

    def choose(self, text: str) -> None:
        """Set the level. Raises `ValueError` for an unknown level."""
        wanted = text.strip().lower()
        self.level = self.configured if wanted == DEFAULT else parse_effort(wanted)

    @property
    def word(self) -> str:
        """The level as one or two words; empty for the provider's default."""
        return effort_word(self.level)

    @property
    def notice_text(self) -> str:
        """A notice about the level now in force."""
        return f"Thinking effort from the next request on: {self.word or 'as the provider likes'}."

    def record(self) -> dict[str, Any]:
        """Return the data about the choice for a node of the conversation, as `of` reads it."""
        chosen = DEFAULT if self.level == self.configured else str(self.level)
        return {"kind": "info", "to_model": False, _KEY: chosen}


def parse_effort(text: str) -> Thinking:
    """Parse a level: a word, or a number of tokens such as `12000`, `12,000` or `12k`.

    Raises `ValueError`.
    """
    word = text.strip().lower()
    if word in ("off", "low", "medium", "high"):
        return word
    digits, thousands = (word[:-1], 1_000) if word.endswith("k") else (word.replace(",", ""), 1)
    if not digits.isascii() or not digits.isdigit() or not 1 <= int(digits[:9]) * thousands <= MOST_TOKENS:
        raise ValueError(f"it takes {KNOWN}")
    return int(digits[:9]) * thousands


def effort_word(level: Thinking | None) -> str:
    """Return the level as one or two words; empty for the provider's default."""
    if isinstance(level, int):
        return plural(level, "token")
    return level or ""


BUDGETS = {"low": 4_096, "medium": 12_288, "high": 24_576}
"""Tokens for thinking at each level."""

GATEWAY_BUDGETS = {"low": 1_024, "medium": 2_048, "high": 16_384}
"""The same for models other than Claude: gateways turn budgets into efforts, below 2,048 into low, from 4,096
on into high.
"""


def budget_of(thinking: Thinking | None, model: str = "claude") -> int:
    """Return the number of tokens for thinking; 0 for `off` or without a level."""
    if thinking is None:
        return 0
    budgets = BUDGETS if "claude" in model.lower() else GATEWAY_BUDGETS
    return thinking if isinstance(thinking, int) else budgets.get(thinking, 0)


def effort_of(thinking: Thinking | None) -> str:
    """Return `low`, `medium` or `high`; empty for `off` or without a level.

    A number of tokens counts as the lowest level whose budget it does not exceed.
    """
    if thinking is None or thinking == "off":
        return ""
    if isinstance(thinking, str):
        return thinking
    return next((word for word, budget in BUDGETS.items() if thinking <= budget), "high")


LEAST_BUDGET = 1_024
"""The fewest tokens for thinking that the API accepts."""
ROOM = 8_192
"""Tokens for the answer in addition to those for thinking, but at most half of the limit."""


def least_output(model: str, thinking: Thinking | None, dialect: Dialect) -> int:
    """Return the fewest output tokens that leave room for the requested thinking and an answer; 0 if thinking
    needs no budget.
    """
    budget = budget_of(thinking, model)
    return max(budget, LEAST_BUDGET) + ROOM if budget and _way(model, dialect) == "enabled" else 0


def thinking_fields(model: str, wanted: Thinking | None, limit: int, dialect: Dialect) -> dict[str, Any]:
    """Return the fields that request thinking, or switch it off. `limit` is the limit of the whole reply in
    tokens.
    """
    thinks = dialect.thinks(model)
    if wanted is None and not thinks.unasked:
        return {}
    if wanted == "off" or dialect.thinking.sent_back == "never":
        switch = not dialect.lacks("disabled") and thinks.unasked and not thinks.always
        return {"thinking": {"type": "disabled"}} if switch else {}
    way = _way(model, dialect)
    if way == "adaptive":
        shown = {"display": "summarized"} if thinks.display and not dialect.lacks("display") else {}
        # Also set if it is the default: thoughts are sent back and must match.
        word = effort_of(wanted) if thinks.effort and not dialect.lacks("effort") else ""
        effort = {"output_config": {"effort": word}} if word else {}
        return {"thinking": {"type": "adaptive", **shown}, **effort}
    budget = min(max(budget_of(wanted, model), LEAST_BUDGET), _most_thoughts(limit))
    if way != "enabled" or budget < LEAST_BUDGET:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def thinking_problem(model: str, wanted: Thinking | None, limit: int, dialect: Dialect) -> str:
    """Return why a request does not ask for thinking although it is wanted; empty if it does. `limit` is the
    limit of the whole reply in tokens.
    """
    if not budget_of(wanted, model) or dialect.thinking.sent_back == "never":
        return ""
    if _way(model, dialect) != "enabled" or _most_thoughts(limit) >= LEAST_BUDGET:
        return ""
    said = f"{model} answers without thinking: its replies end at {limit:,} tokens, which leaves no room"
    most = dialect.limits.output_max
    if most and _most_thoughts(most) < LEAST_BUDGET:
        return f"{said}."
    least = f"{2 * LEAST_BUDGET:,}"
    return f"{said}. With model.max_output at {least} or more it thinks, where its window has room for that."


def _most_thoughts(limit: int) -> int:
    """Return how many tokens of a reply may be used for thinking."""
    return limit - min(ROOM, limit // 2)


def keeps_thoughts(model: str, wanted: Thinking | None, asked: dict[str, Any], dialect: Dialect) -> bool:
    """Return whether a request with the thinking fields `asked` includes thoughts from earlier replies."""
    thinks, sent_back = dialect.thinks(model), dialect.thinking.sent_back != "never"
    if not sent_back or wanted == "off":
        return sent_back and thinks.always
    if "thinking" in asked:
        return asked["thinking"]["type"] != "disabled"
    return thinks.unasked


def _way(model: str, dialect: Dialect) -> str:
    """Return the likeliest form of requesting thinking that the model has not refused; empty if there is
    none.
    """
    return next((way for way in dialect.thinks(model).ways if not dialect.lacks(way)), "")
