"""The answers of hooks: one JSON object, or nothing. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, cast

from agent.errors import HermesError
from tools.text.safe_text import clean

HookDecision = Literal["allow", "ask", "block"]
_STRICTNESS: dict[HookDecision, int] = {"allow": 0, "ask": 1, "block": 2}
LONGEST_REASON = 1_000
"""Characters of a reason that are kept."""
FIELDS = ("decision", "reason", "arguments", "result")


class HookError(HermesError):
    """A hook that failed. The message names it, the cause and the mend."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What one or several hooks said."""

    decision: HookDecision = "allow"
    reason: str = ""
    arguments: dict[str, Any] | None = None
    """Takes the place of the call's arguments, which pass the gate like any others."""
    result: Any = None
    """Takes the place of the call's result."""


def parse_answer(output: bytes) -> HookAnswer:
    """The answer on the standard output of a hook. Raises `HookError` for what is none."""
    text = output.decode("utf-8", "replace").strip()
    if not text:
        return HookAnswer()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise HookError("its output is no JSON") from None
    if not isinstance(data, dict):
        raise HookError("its output is no JSON object")
    return answer_of(data)


def answer_of(data: Any) -> HookAnswer:
    """The answer that data stands for. Raises `HookError` for what is none."""
    if not isinstance(data, dict):
        raise HookError("its answer is no object")
    decision = data.get("decision", "allow")
    if decision not in _STRICTNESS:
        raise HookError("its `decision` is not allow, ask or block")
    reason, arguments = data.get("reason", ""), data.get("arguments")
    if not isinstance(reason, str):
        raise HookError("its `reason` is no text")
    if arguments is not None and not isinstance(arguments, dict):
        raise HookError("its `arguments` are no object")
    return HookAnswer(
        cast("HookDecision", decision), clean(reason)[:LONGEST_REASON], arguments, data.get("result")
    )


def combined(first: HookAnswer, second: HookAnswer) -> HookAnswer:
    """Both together: the stricter decision with its reason, the later arguments and result."""
    stricter = second if _STRICTNESS[second.decision] > _STRICTNESS[first.decision] else first
    return HookAnswer(
        stricter.decision,
        stricter.reason,
        first.arguments if second.arguments is None else second.arguments,
        first.result if second.result is None else second.result,
    )
