"""Levels of thinking as words and as budgets, for formats that know only one of the two."""

from __future__ import annotations

from agent.model.protocol import Thinking

BUDGETS = {"low": 4_096, "medium": 12_288, "high": 24_576}
"""Tokens of thought that a word stands for."""

GATEWAY_BUDGETS = {"low": 1_024, "medium": 2_048, "high": 16_384}
"""The same for models that are no Claude: gateways make efforts of budgets, low below 2,048, high from
4,096 on."""


def budget_of(thinking: Thinking | None, model: str = "claude") -> int:
    """Tokens of thought; 0 for `off` and where nothing was said."""
    if thinking is None:
        return 0
    budgets = BUDGETS if "claude" in model.lower() else GATEWAY_BUDGETS
    return thinking if isinstance(thinking, int) else budgets.get(thinking, 0)


def effort_of(thinking: Thinking | None) -> str:
    """`low`, `medium` or `high`; empty for `off` and where nothing was said. A budget counts as the
    word whose budget it does not exceed."""
    if thinking is None or thinking == "off":
        return ""
    if isinstance(thinking, str):
        return thinking
    return next((word for word, budget in BUDGETS.items() if thinking <= budget), "high")
