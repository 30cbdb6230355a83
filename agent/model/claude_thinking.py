"""Ways of asking for thinking in the Messages API, by what is known of a model.

Older models think within a budget of tokens, newer ones as they see fit and at an effort, the
newest without being asked. The tables say which (`thinking.models`), and refusals what they do not.
"""

from __future__ import annotations

from typing import Any

from agent.model.dialect import Dialect
from agent.model.protocol import Thinking
from agent.model.thinking_levels import budget_of, effort_of

LEAST_BUDGET = 1_024
"""Tokens of thought that the API takes at least."""
ROOM = 8_192
"""Tokens for the answer beside a budget of thought, where the limit leaves so many; else half of it."""


def least_output(model: str, thinking: Thinking | None, dialect: Dialect) -> int:
    """Tokens of a reply that has room for the thoughts asked for and an answer."""
    budget = budget_of(thinking, model)
    return max(budget, LEAST_BUDGET) + ROOM if budget and _way(model, dialect) == "enabled" else 0


def thinking_fields(model: str, wanted: Thinking | None, limit: int, dialect: Dialect) -> dict[str, Any]:
    """The fields that ask for thinking, or that switch it off; `limit` is that of the whole reply."""
    thinks = dialect.thinks(model)
    if wanted is None and not thinks.unasked:
        return {}
    if wanted == "off" or dialect.thinking.sent_back == "never":
        switch = not dialect.lacks("disabled") and thinks.unasked and not thinks.always
        return {"thinking": {"type": "disabled"}} if switch else {}
    way = _way(model, dialect)
    if way == "adaptive":
        shown = {"display": "summarized"} if thinks.display and not dialect.lacks("display") else {}
        # Said also where it goes without saying: thoughts are sent back, and that has to fit.
        word = effort_of(wanted) if thinks.effort and not dialect.lacks("effort") else ""
        effort = {"output_config": {"effort": word}} if word else {}
        return {"thinking": {"type": "adaptive", **shown}, **effort}
    budget = min(max(budget_of(wanted, model), LEAST_BUDGET), limit - min(ROOM, limit // 2))
    if way != "enabled" or budget < LEAST_BUDGET:
        return {}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def keeps_thoughts(model: str, wanted: Thinking | None, asked: dict[str, Any], dialect: Dialect) -> bool:
    """Whether thoughts of earlier replies go with a request that asks for thinking in this way."""
    thinks, sent_back = dialect.thinks(model), dialect.thinking.sent_back != "never"
    if not sent_back or wanted == "off":
        return sent_back and thinks.always
    if "thinking" in asked:
        return asked["thinking"]["type"] != "disabled"
    return thinks.unasked


def _way(model: str, dialect: Dialect) -> str:
    """The likeliest way of asking that was not refused; empty for none."""
    return next((way for way in dialect.thinks(model).ways if not dialect.lacks(way)), "")
