"""The result of a run over a suite, as `result.json` holds it, and what a report says of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from agent.batch.results import TaskResult
from agent.errors import ConfigError
from agent.evaluation.statistics import bootstrap, pass_at, wilson

RESULT = "result.json"
VERSION = 1
_TEXTS = ("task", "outcome", "session", "error")
_COUNTS = ("run", "calls", "tokens")


@dataclass(frozen=True, slots=True)
class RunFigures:
    """One run of one task. `score` is the share of checks that hold, `cost` in US dollars."""

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
    def why(self) -> str:
        """Why a run did not pass: its error, else the first check that failed, else its outcome."""
        broken = next((check for check in self.checks if check["passed"] is False), None)
        if self.error or broken is None:
            return self.error or self.outcome
        return " – ".join(part for part in (broken["check"], broken["detail"]) if part)


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """All runs over a suite, with what they were made with."""

    suite: str
    runs: int
    seed: int
    model: str
    version: str
    runs_of_tasks: tuple[RunFigures, ...]

    def by_task(self) -> dict[str, list[RunFigures]]:
        """The runs of each task."""
        found: dict[str, list[RunFigures]] = {}
        for each in self.runs_of_tasks:
            found.setdefault(each.task, []).append(each)
        return found

    def summary(self) -> dict[str, Any]:
        """The figures of the whole: shares with their intervals, sums."""
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
            **{name: value for name, value in asdict(self).items() if name != "runs_of_tasks"},
            "summary": self.summary(),
            "results": [{**asdict(each), "pass": each.passed} for each in self.runs_of_tasks],
        }


def figures_of(task: str, run: int, result: TaskResult) -> RunFigures:
    """The figures of a result of the batch runner."""
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
    """A result by its file or folder. Raises `ConfigError`."""
    path = where / RESULT if where.is_dir() else where
    try:
        given = json.loads(path.read_text("utf-8"))
        runs = [
            _checked(
                RunFigures(
                    **{**{k: v for k, v in each.items() if k != "pass"}, "checks": tuple(each["checks"])}
                )
            )
            for each in given["results"]
        ]
        named = {name: given[name] for name in ("suite", "runs", "seed", "model", "version")}
        _require(named, ("suite", "model", "version"), str)
        _require(named, ("runs", "seed"), int)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(f"{path} is no result of `hermes eval run`.") from None
    if not runs:
        raise ConfigError(f"{path} holds no runs.")
    return SuiteResult(**named, runs_of_tasks=tuple(runs))


def _checked(run: RunFigures) -> RunFigures:
    """The same run. Raises `TypeError` where a field is of another kind than it says."""
    fields = asdict(run)
    _require(fields, _TEXTS, str)
    _require(fields, _COUNTS, int)
    _require(fields, ("passed",), bool)
    _require(fields, ("score", "seconds"), int | float)
    _require(fields, ("cost",), int | float | None)
    for check in run.checks:
        _require(check, ("check", "detail"), str)
        _require(check, ("passed",), bool | None)
    return run


def _require(fields: Mapping[str, Any], names: Sequence[str], kind: Any) -> None:
    for name in names:
        if not isinstance(fields[name], kind):
            raise TypeError(name)


def ordered(found: Sequence[RunFigures]) -> tuple[RunFigures, ...]:
    """By task and run."""
    return tuple(sorted(found, key=lambda each: (each.task, each.run)))
