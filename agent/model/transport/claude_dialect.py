"""Differences between models of the Messages API: how to ask for thinking, and what else they take.

Older models think within a budget of tokens, newer ones as they see fit and at an effort, the
newest without being asked. What the name of a model does not tell is learned from its refusals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from agent.model.protocol import Thinking
from agent.model.thinking_levels import budget_of, effort_of

LEAST_BUDGET = 1_024
"""Tokens of thought that the API takes at least."""
ROOM = 8_192
"""Tokens for the answer beside a budget of thought, where the limit leaves so many; else half of it."""

_VERSION = re.compile(r"claude-(?:opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d{1,2})(?!\d))?")
_THINKING = re.compile(
    r"thinking[.:]\s*(?:type|adaptive|enabled|budget)|adaptive thinking|budget_tokens"
    r"|support\w* .{0,20}thinking|thinking.{0,40}not supported",
    re.IGNORECASE,
)
_LIMIT = re.compile(r"max_tokens: \d+ > (\d+)")


@dataclass(frozen=True, slots=True)
class ClaudeDialect:
    """What one model takes."""

    ways: tuple[str, ...] = ("enabled", "adaptive")
    """The ways of asking for thinking that were not refused yet, the likeliest first."""
    effort: bool = True
    display: bool = False
    """Whether it is asked to show its thoughts, which newer models otherwise keep to themselves."""
    disable: bool = True
    """Whether thinking can be switched off where it is on unasked."""
    thoughts: bool = True
    """Whether its own thoughts are sent back; not any more once it refused one."""
    temperature: bool = True
    marks: bool = True
    limit: int = 0
    """Tokens of a reply it allows at most; 0: unknown."""

    def without(self, complaint: str) -> ClaudeDialect | None:
        """The dialect to try after a refusal, or None."""
        if limit := _LIMIT.search(complaint):
            return replace(self, limit=int(limit[1])) if self.limit != int(limit[1]) else None
        if self.thoughts and re.search(r"signature|thinking. blocks? .{0,80}cannot be modified", complaint):
            return replace(self, thoughts=False)
        if self.display and "display" in complaint:
            return replace(self, display=False)
        if self.effort and re.search(r"effort|output_config", complaint):
            return replace(self, effort=False)
        if self.disable and "disabled" in complaint and "not supported" in complaint:
            return replace(self, disable=False)
        if self.marks and "cache_control" in complaint:
            return replace(self, marks=False)
        if self.temperature and "temperature" in complaint:
            return replace(self, temperature=False)
        if self.ways and _THINKING.search(complaint):
            return replace(self, ways=self.ways[1:])
        return None

    def least_output(self, thinking: Thinking | None) -> int:
        """Tokens of a reply that has room for the thoughts asked for and an answer."""
        budget = budget_of(thinking)
        return max(budget, LEAST_BUDGET) + ROOM if budget and self._way == "enabled" else 0

    def thinking(self, model: str, wanted: Thinking | None, limit: int) -> dict[str, Any]:
        """The fields that ask for thinking, or that switch it off; `limit` is that of the whole reply."""
        if wanted is None and not thinks_unasked(model):
            return {}
        if wanted == "off" or not self.thoughts:
            switch = self.disable and thinks_unasked(model) and not thinks_always(model)
            return {"thinking": {"type": "disabled"}} if switch else {}
        if self._way == "adaptive":
            shown = {"display": "summarized"} if self.display else {}
            # Said also where it goes without saying: thoughts are sent back, and that has to fit.
            word = effort_of(wanted) if self.effort else ""
            effort = {"output_config": {"effort": word}} if word else {}
            return {"thinking": {"type": "adaptive", **shown}, **effort}
        budget = min(max(budget_of(wanted), LEAST_BUDGET), limit - min(ROOM, limit // 2))
        if self._way != "enabled" or budget < LEAST_BUDGET:
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}

    def keeps_thoughts(self, model: str, wanted: Thinking | None, asked: dict[str, Any]) -> bool:
        """Whether thoughts of earlier replies go with a request that asks for thinking in this way."""
        if not self.thoughts or wanted == "off":
            return self.thoughts and thinks_always(model)
        if "thinking" in asked:
            return asked["thinking"]["type"] != "disabled"
        return thinks_unasked(model)

    @property
    def _way(self) -> str:
        return self.ways[0] if self.ways else ""


def initial(model: str) -> ClaudeDialect:
    """What the name of a model says."""
    if _version(model) >= (4, 6):
        return ClaudeDialect(ways=("adaptive", "enabled"), display=_version(model) >= (4, 7))
    return ClaudeDialect(effort=False)


def thinks_unasked(model: str) -> bool:
    """Whether a model thinks where a request says nothing about it."""
    return _version(model) >= (5, 0)


def thinks_always(model: str) -> bool:
    """Whether thinking cannot be switched off."""
    return thinks_unasked(model) and re.search(r"claude-(?:fable|mythos)-", model) is not None


def binds_thoughts(model: str) -> bool:
    """Whether a thought is valid only behind exactly what the model had read when it had it."""
    return _version(model) >= (5, 1)


def _version(model: str) -> tuple[int, int]:
    """The version in the name of a Claude model; (0, 0) for any other name."""
    found = _VERSION.search(model.lower().replace(".", "-"))
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)
