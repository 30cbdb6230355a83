"""Comparing what was told with what a dialogue expects of it. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def matches(told: Any, wanted: Any) -> bool:
    """Whether `told` has everything that `wanted` has; of lists any element may be meant."""
    match wanted:
        case dict():
            return isinstance(told, dict) and all(
                key in told and matches(told[key], each) for key, each in wanted.items()
            )
        case list():
            return isinstance(told, list) and all(any(matches(one, each) for one in told) for each in wanted)
        case _:
            return told == wanted


def replaced(step: Any, work: Path) -> Any:
    """A step with `$WORK` filled in."""
    match step:
        case str():
            return step.replace("$WORK", str(work))
        case dict():
            return {key: replaced(each, work) for key, each in step.items()}
        case list():
            return [replaced(each, work) for each in step]
        case _:
            return step
