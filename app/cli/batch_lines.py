"""Words for results of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.api.batch import TaskResult


def line_of(result: TaskResult) -> str:
    """A result in one line."""
    failed = [check for check in result.checks if not check.passed]
    state = result.outcome if result.outcome != "done" or not failed else "wrong"
    told = result.error or (f"{failed[0].check} {failed[0].detail}" if failed else result.text)
    return f"{state:<8} {result.id:<12.12} {result.seconds:6.1f} s  {' '.join(told.split())[:90]}"
