"""Two results of one suite side by side: the paired difference, and whether chance explains it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from agent.automation.evaluation.figures import RunFigures, SuiteResult
from agent.automation.evaluation.statistics import bootstrap, paired_p
from agent.errors import ConfigError

LEVEL = 0.01
"""Below this chance a difference counts."""


@dataclass(frozen=True, slots=True)
class ResultComparison:
    """`difference` is the share of B that passes less that of A, over the tasks both have."""

    tasks: int
    difference: float
    interval: tuple[float, float]
    p: float
    significant: bool
    better: Literal["A", "B", "none"]
    worse: tuple[str, ...]
    """Tasks that pass less often in B."""
    improved: tuple[str, ...]
    tokens: float
    """Tokens of B for each of A."""
    only_in_one: tuple[str, ...]
    doubt: str = ""
    """Why scores of a judge in one of them do not count; empty where they do, or where none judged."""
    conditions: tuple[str, ...] = ()
    """What differs between them beside the model: `skills`, `memory`, `judge`."""

    def to_json(self) -> dict[str, Any]:
        return {
            "tasks": self.tasks,
            "difference": self.difference,
            "interval": list(self.interval),
            "p": self.p,
            "significant": self.significant,
            "better": self.better,
            "worse": list(self.worse),
            "improved": list(self.improved),
            "tokens": self.tokens,
            "only_in_one": list(self.only_in_one),
            "doubt": self.doubt,
            "conditions": list(self.conditions),
        }


def compare(first: SuiteResult, second: SuiteResult, seed: int = 0) -> ResultComparison:
    """Compare `first` (A) with `second` (B) task by task. Raises `ConfigError` where the suites differ."""
    if first.suite != second.suite:
        raise ConfigError(f"A is of the suite {first.suite}, B of {second.suite}; compare runs of one suite.")
    old, new = first.by_task(), second.by_task()
    common = sorted(old.keys() & new.keys())
    if not common:
        raise ConfigError("The two results have no task in common; compare runs of one suite.")
    differences = [_rate(new[task]) - _rate(old[task]) for task in common]
    passed = [
        (sum(each.passed for each in old[task]), sum(each.passed for each in new[task])) for task in common
    ]
    difference, p = fmean(differences), paired_p(passed, first.runs, second.runs)
    significant = p < LEVEL
    used = [sum(each.tokens for task in common for each in side[task]) for side in (old, new)]
    return ResultComparison(
        tasks=len(common),
        difference=difference,
        interval=bootstrap(differences, seed),
        p=p,
        significant=significant,
        better=("B" if difference > 0 else "A") if significant else "none",
        worse=tuple(task for task, each in zip(common, differences, strict=True) if each < 0),
        improved=tuple(task for task, each in zip(common, differences, strict=True) if each > 0),
        tokens=used[1] / used[0] if used[0] else 1.0,
        only_in_one=tuple(sorted(old.keys() ^ new.keys())),
        doubt=first.doubt() or second.doubt(),
        conditions=tuple(_conditions(first, second)),
    )


def _conditions(first: SuiteResult, second: SuiteResult) -> Iterator[str]:
    for name in ("skills", "memory"):
        if getattr(first, name) != getattr(second, name):
            yield name
    judges = [None if each.judge is None else each.judge.model for each in (first, second)]
    if judges[0] != judges[1]:
        yield "judge"


def _rate(runs: list[RunFigures]) -> float:
    return fmean(each.passed for each in runs)
