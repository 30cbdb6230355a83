"""The results of a batch as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.text.words import shorten

if TYPE_CHECKING:
    from agent.automation.batch.attempt import TaskResult

_LONGEST_ID, _MOST_TOLD = 40, 90


def state_of(result: TaskResult) -> str:
    """Return the outcome of a task in one word; `wrong` if it is done but a check failed."""
    return result.outcome if result.outcome != "done" or result.passed else "wrong"


def result_text(result: TaskResult) -> str:
    """Return the error of a result, its first failed check, or its answer, as one line of any length."""
    failed = [check for check in result.checks if not check.passed]
    told = result.error or (f"{failed[0].check} {failed[0].detail}" if failed else result.text)
    return " ".join(told.split())


def line_of(result: TaskResult) -> str:
    """Return a result as one line of limited length."""
    name, told = shorten(result.id, _LONGEST_ID), shorten(result_text(result), _MOST_TOLD)
    return f"{state_of(result):<8} {name:<12} {result.seconds:6.1f} s  {told}".rstrip()
