"""Results of an evaluation in numbers, and the comparison of two evaluations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from agent.automation.batch.results import TaskResult
from agent.automation.evaluation.agreement import Calibration, bootstrap, paired_p, pass_at, wilson
from agent.errors import ConfigError

RESULT = "result.json"
VERSION = 1
_LARGEST = 500_000_000
"""Bytes of a result that is read."""
_OF_ALL = ("suite", "runs", "seed", "model", "version")
_TEXTS = ("task", "outcome", "session", "error")
_COUNTS = ("run", "calls", "tokens")


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The numbers of one run of one task. `score` is the share of passed checks, `cost` is in US dollars."""

    task: str
    run: int
    passed: bool
    score: float
    calls: int
    tokens: int
    cost: float | None
    seconds: float
    outcome: str
    checks: tuple[Mapping[str, Any], ...] = ()
    session: str = ""
    error: str = ""

    @property
    def is_judged(self) -> bool:
        """Return whether a model judged the run."""
        return any(str(check["check"]).removeprefix("not ").startswith("judge: ") for check in self.checks)

    @property
    def why(self) -> str:
        """Return why a run did not pass: its error, else the first failed check, else its outcome."""
        broken = next((check for check in self.checks if check["passed"] is False), None)
        if self.error or broken is None:
            return self.error or self.outcome
        return " – ".join(part for part in (broken["check"], broken["detail"]) if part)


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """All runs of a suite, and the conditions under which they ran.

    `skills` and `memory` say whether sessions could use those of the home folder. `judge` is the agreement of
    the judging model with labelled pairs.
    """

    suite: str
    runs: int
    seed: int
    model: str
    version: str
    runs_of_tasks: tuple[RunFigures, ...]
    skills: bool = True
    memory: bool = False
    judge: Calibration | None = None

    def judged_tasks(self) -> frozenset[str]:
        """Return the names of the tasks that a model judged."""
        return frozenset(each.task for each in self.runs_of_tasks if each.is_judged)

    def doubt(self) -> str:
        """Return a sentence on why the judge's scores are not reliable; empty if they are, or if there are
        none.
        """
        if not self.judged_tasks():
            return ""
        if self.judge is None:
            return "Scores of the judge do not count: it was not calibrated; run the suite again to do so."
        return self.judge.agreement.doubt()

    def by_task(self) -> dict[str, list[RunFigures]]:
        """Return the runs of each task."""
        found: dict[str, list[RunFigures]] = {}
        for each in self.runs_of_tasks:
            found.setdefault(each.task, []).append(each)
        return found

    def summary(self) -> dict[str, Any]:
        """Return the numbers for all runs: shares with their confidence intervals, and sums."""
        tasks = self.by_task()
        rates = [fmean(run.passed for run in runs) for runs in tasks.values()]
        passed = sum(each.passed for each in self.runs_of_tasks)
        low, high = wilson(passed, len(self.runs_of_tasks)) if self.runs == 1 else bootstrap(rates, self.seed)
        costs = [each.cost for each in self.runs_of_tasks]
        return {
            "tasks": len(tasks),
            "runs": len(self.runs_of_tasks),
            "completed": fmean(each.outcome == "done" for each in self.runs_of_tasks),
            "passed": fmean(rates),
            "interval": [low, high],
            "pass_at": {
                str(k): fmean(pass_at(k, len(runs), sum(r.passed for r in runs)) for runs in tasks.values())
                for k in sorted({1, self.runs})
            },
            "score": fmean(each.score for each in self.runs_of_tasks),
            "calls": sum(each.calls for each in self.runs_of_tasks),
            "tokens": sum(each.tokens for each in self.runs_of_tasks),
            "cost": None if None in costs else sum(cost or 0.0 for cost in costs),
            "seconds": sum(each.seconds for each in self.runs_of_tasks),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "format": VERSION,
            **{name: getattr(self, name) for name in (*_OF_ALL, "skills", "memory")},
            "judge": None if self.judge is None else self.judge.to_json(),
            "judged": sorted(self.judged_tasks()),
            "summary": self.summary(),
            "results": [{**asdict(each), "pass": each.passed} for each in self.runs_of_tasks],
        }


def figures_of(task: str, run: int, result: TaskResult) -> RunFigures:
    """Return the numbers for a result of the batch runner."""
    told = [check for check in result.checks if check.passed is not None]
    done = result.outcome == "done"
    score = (sum(bool(check.passed) for check in told) / len(told) if told else 1.0) if done else 0.0
    return RunFigures(
        task=task,
        run=run,
        passed=result.passed,
        score=score,
        calls=result.usage.get("calls", 0),
        tokens=result.usage.get("input", 0) + result.usage.get("output", 0),
        cost=result.cost,
        seconds=result.seconds,
        outcome=result.outcome,
        checks=tuple(asdict(check) for check in result.checks),
        session=result.session,
        error=result.error,
    )


def read_result(where: Path) -> SuiteResult:
    """Return the result stored in a file or folder. Raises `ConfigError`."""
    path = where / RESULT if where.is_dir() else where
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ValueError
        result = _result(json.loads(data.decode("utf-8")))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ConfigError(f"{path} is not a result of `hermes eval run`.") from None
    if not result.runs_of_tasks:
        raise ConfigError(f"{path} holds no runs.")
    return result


def _result(given: Any) -> SuiteResult:
    """Read the result of `to_json`. Raises `ValueError`, `KeyError` or `TypeError` for invalid data."""
    runs = [_run(each) for each in given["results"]]
    named = {name: given[name] for name in _OF_ALL}
    named |= {"skills": given.get("skills", True), "memory": given.get("memory", False)}
    _require(named, ("suite", "model", "version"), str)
    _require(named, ("runs", "seed"), int)
    _require(named, ("skills", "memory"), bool)
    judge = given.get("judge")
    result = SuiteResult(
        **named, runs_of_tasks=tuple(runs), judge=None if judge is None else Calibration.from_json(judge)
    )
    expected = list(range(1, result.runs + 1))
    if any(sorted(run.run for run in each) != expected for each in result.by_task().values()):
        raise ValueError("a run of a task is missing, or appears twice")
    return result


def _run(given: Mapping[str, Any]) -> RunFigures:
    fields = {name: value for name, value in given.items() if name != "pass"}
    run = RunFigures(**{**fields, "checks": tuple(given["checks"])})
    values = asdict(run)
    _require(values, _TEXTS, str)
    _require(values, _COUNTS, int)
    _require(values, ("passed",), bool)
    _require(values, ("score", "seconds"), int | float)
    _require(values, ("cost",), int | float | None)
    for check in run.checks:
        _require(check, ("check", "detail"), str)
        _require(check, ("passed",), bool | None)
    return run


def _require(fields: Mapping[str, Any], names: Sequence[str], kind: Any) -> None:
    """Check the types of fields.

    Raises `TypeError` for a wrong type, and `ValueError` for a number that is out of range.
    """
    for name in names:
        value = fields[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, bool | None)):
            raise TypeError(name)
        if isinstance(value, int | float) and (not math.isfinite(value) or (value < 0 and name != "seed")):
            raise ValueError(name)


def sort_figures(found: Sequence[RunFigures]) -> tuple[RunFigures, ...]:
    """Return the figures sorted by task and run."""
    return tuple(sorted(found, key=lambda each: (each.task, each.run)))


LEVEL = 0.01
"""Below this chance a difference counts."""


@dataclass(frozen=True, slots=True)
class ResultComparison:
    """A comparison of two results.

    `difference` is the pass rate of B minus that of A, over the tasks that both have.
    """

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
    """Compare `first` (A) with `second` (B) task by task. Raises `ConfigError` if the suites differ."""
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
