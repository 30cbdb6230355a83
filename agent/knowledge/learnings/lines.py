"""Lines about a learning: those a model is told, and those of the system prompt. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.knowledge.injection import scan
from agent.knowledge.learnings.learning import Learning
from tools.text.words import one_line


def mark(learning: Learning) -> str:
    """What every line about it begins with."""
    name = "Candidate" if learning.status == "candidate" else "Learning"
    return f"[{name} {learning.id}]"


def what_worked(learning: Learning) -> str:
    """The fix, with when it matters."""
    context = f" ({learning.context})" if learning.context else ""
    return one_line(f"{learning.fix}{context}")


def held_back(learning: Learning, others: Sequence[Learning] = ()) -> str:
    """Why a call was not run."""
    also = "".join(f" {mark(each)} Or: {what_worked(each)}." for each in others)
    return (
        f"{mark(learning)} Not run: this call failed before ({one_line(learning.error_type)}). "
        f"What worked: {what_worked(learning)}.{also} To run it all the same, make it again unchanged."
    )


def with_failure(learning: Learning) -> str:
    """What is said beside a failure that is known."""
    if learning.status == "candidate":
        return (
            f"{mark(learning)} The same failure went away once with: {what_worked(learning)}. "
            f"If that holds, keep it: save_learning(candidate={learning.id})."
        )
    since = " before something it depends on changed" if learning.status == "stale" else ""
    return f"{mark(learning)} This failure is known. What worked{since}: {what_worked(learning)}."


def entries(learnings: Sequence[Learning]) -> tuple[str, ...]:
    """The learnings in force as the system prompt shows them, a line each; orders are left out."""
    lines = (
        f"- `{one_line(each.pattern)}` ({one_line(each.error_type)}): {what_worked(each)}"
        for each in learnings
    )
    return tuple(line for line in lines if not scan(line))
