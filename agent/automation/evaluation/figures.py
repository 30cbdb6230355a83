"""Results of an evaluation in numbers, and the comparison of two evaluations."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from agent.automation.batch.attempt import TaskResult
from agent.automation.checks.check import Judge, open_judge
from agent.core.config.loader import load
from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError, ExitCode, HermesError

if TYPE_CHECKING:
    from agent.automation.checks.check import PairVerdict, Winner

RESAMPLES = 4_000
CONFIDENCE = 0.95


def pass_at(k: int, runs: int, passed: int) -> float:
    """Return an estimate of the chance that at least one of `k` runs passes, if `passed` of `runs` did.

    The estimate is unbiased.
    """
    if runs - passed < k:
        return 1.0
    return 1.0 - math.prod((runs - passed - i) / (runs - i) for i in range(k))


def wilson(passed: int, runs: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson confidence interval of the proportion `passed` of `runs`; (0, 1) without runs."""
    if not runs:
        return 0.0, 1.0
    z = 1.959964 if confidence == CONFIDENCE else _quantile(confidence)
    share = passed / runs
    middle = share + z * z / (2 * runs)
    spread = z * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs))
    scale = 1 + z * z / runs
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def _quantile(confidence: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + confidence / 2)


def bootstrap(values: Sequence[float], seed: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return a bootstrap confidence interval for the mean of `values`; (0, 0) without values."""
    if len(values) < 2:
        return (values[0], values[0]) if values else (0.0, 0.0)
    draw = random.Random(seed)
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = (1 - confidence) / 2
    return means[int(tail * RESAMPLES)], means[min(RESAMPLES - 1, int((1 - tail) * RESAMPLES))]


def paired_p(passed: Sequence[tuple[int, int]], first: int, second: int) -> float:
    """Return the p-value of the difference in passed runs between A and B.

    `passed` holds two numbers for each task: passed runs of `first` in A, and of `second` in B. The test is
    exact. Under the null hypothesis, a task's passes in A follow a hypergeometric distribution; their sum is
    the statistic. With one run each, this is the sign test.
    """
    chances = [1.0]
    expected = 0.0
    for mine, others in passed:
        both = mine + others
        expected += both * first / (first + second)
        if 0 < both < first + second:
            chances = _convolve(chances, _hypergeometric(both, first, second))
        else:
            # It falls one way only.
            chances = [0.0] * (both * first // (first + second)) + chances
    seen = abs(sum(mine for mine, _ in passed) - expected)
    return min(1.0, math.fsum(p for n, p in enumerate(chances) if abs(n - expected) >= seen - 1e-9))


def _hypergeometric(passes: int, first: int, second: int) -> list[float]:
    """Return the probabilities that 0, 1, … of `passes` fall among the `first` runs."""
    ways = math.comb(first + second, passes)
    return [math.comb(first, n) * math.comb(second, passes - n) / ways for n in range(min(first, passes) + 1)]


def _convolve(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return the distribution of the sum of two independent counts."""
    sums = [0.0] * (len(first) + len(second) - 1)
    for n, p in enumerate(first):
        if p:
            for m, q in enumerate(second):
                sums[n + m] += p * q
    return sums


def kappa(pairs: Sequence[tuple[str, str]]) -> float:
    """Return Cohen's kappa, the agreement of two raters beyond chance.

    It is 0.0 without pairs, or if both raters gave the same single label every time.
    """
    if not pairs:
        return 0.0
    agreed = sum(first == second for first, second in pairs) / len(pairs)
    firsts, seconds = Counter(each for each, _ in pairs), Counter(each for _, each in pairs)
    chance = sum(firsts[label] * seconds[label] for label in firsts) / len(pairs) ** 2
    return 0.0 if chance == 1.0 else (agreed - chance) / (1 - chance)


def kappa_interval(pairs: Sequence[tuple[str, str]], seed: int) -> tuple[float, float]:
    """Return a 95 % bootstrap confidence interval for `kappa`; (-1, 1) for fewer than two pairs."""
    if len(pairs) < 2:
        return -1.0, 1.0
    draw = random.Random(seed)
    found = sorted(kappa(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES // 4))
    return found[int(0.025 * len(found))], found[min(len(found) - 1, int(0.975 * len(found)))]


def bounded_text(path: Path, largest: int, shorter: str) -> str:
    """Return the text of a UTF-8 file of at most `largest` bytes. `shorter` tells in the error how to shorten
    it.

    Raises `ConfigError`, which names the file and the error.
    """
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    # Before it is decoded: where it is cut, a character may end in its middle.
    if len(data) > largest:
        raise ConfigError(f"{path} is larger than {largest // 1_000_000} MB; {shorter}.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not encoded in UTF-8.") from None


ENOUGH = 0.6
"""The lowest kappa (agreement beyond chance) with which a judge's scores are reliable."""
FEWEST = 20
"""The fewest pairs with which a judge's agreement can be measured."""
_BUNDLED = Path(__file__).with_name("pairs.jsonl")
_MOST_BYTES = 50_000_000
"""The maximum size in bytes of a file of pairs."""


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two answers to a prompt, and the answer that people prefer: `a`, `b` or `tie`."""

    id: str
    prompt: str
    a: str
    b: str
    label: Winner


class PairsUnreadableError(HermesError):
    """Raised if a file of labelled pairs cannot be used."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """Labelled pairs and the name of the set."""

    name: str
    pairs: tuple[LabelledPair, ...]

    @property
    def digest(self) -> str:
        """A hash of the pairs."""
        rows = [asdict(each) for each in self.pairs]
        return hashlib.sha256(json.dumps(rows, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def bundled_pairs() -> CalibrationSet:
    """Return the pairs that are part of the program."""
    return CalibrationSet("bundled", tuple(read_pairs(_BUNDLED.read_text("utf-8"), _BUNDLED.name)))


def pairs_in(path: Path) -> CalibrationSet:
    """Return the pairs in a file. Raises `ConfigError` or `PairsUnreadableError`, which name the error."""
    text = bounded_text(path, _MOST_BYTES, "use fewer pairs")
    return CalibrationSet(path.name, tuple(read_pairs(text, path.name)))


def read_pairs(text: str, name: str) -> Sequence[LabelledPair]:
    """Return the pairs in lines of JSON. Raises `PairsUnreadableError`, also if all labels are equal."""
    found: list[LabelledPair] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            found.append(_pair(line, number, name))
    if not found:
        raise PairsUnreadableError(f"{name} holds no pairs.")
    if len({each.label for each in found}) == 1:
        raise PairsUnreadableError(
            f"All pairs of {name} have the label {found[0].label}; agreement beyond chance needs two labels."
        )
    return found


def _pair(line: str, number: int, name: str) -> LabelledPair:
    try:
        given = json.loads(line)
        label = str(given["label"]).lower()
        prompt, first, second = (str(given[key]) for key in ("prompt", "a", "b"))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise PairsUnreadableError(
            f"{name}, line {number}: has to be an object with prompt, a, b and label."
        ) from None
    if label != "a" and label != "b" and label != "tie":
        raise PairsUnreadableError(f"{name}, line {number}: `label` is a, b or tie.")
    return LabelledPair(str(given.get("id") or number), prompt, first, second, label)


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """The agreement of a judge with labels.

    `agreement` is the share of equal verdicts, and `kappa` corrects it for chance. `interval` belongs to
    `kappa`.
    """

    pairs: int
    agreement: float
    kappa: float
    interval: tuple[float, float]
    disagreed: float
    """The share of pairs for which the verdict changed with the order; they count as ties."""
    abstained: float = 0.0
    """The share of pairs for which a verdict was unreadable; they count as ties."""

    @property
    def counts(self) -> bool:
        """True if the agreement is high enough to rely on this judge."""
        return self.kappa >= ENOUGH and self.pairs >= FEWEST

    def doubt(self) -> str:
        """Return a sentence on why this judge is not reliable; empty if it is."""
        if self.pairs < FEWEST:
            return (
                f"Scores of this judge do not count: {self.pairs} labelled pairs are fewer than the {FEWEST} "
                "it takes to measure it."
            )
        if self.kappa < ENOUGH:
            return f"Scores of this judge do not count: its kappa of {self.kappa:.2f} is below {ENOUGH}."
        return ""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "interval": list(self.interval), "counts": self.counts}


@dataclass(frozen=True, slots=True)
class Calibration:
    """The reliability of a judge, measured with a set of pairs."""

    model: str
    source: str
    """The name of the set of pairs."""
    measured: str
    """The time of the measurement, as an ISO time with zone."""
    agreement: JudgeAgreement

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "source": self.source,
            "measured": self.measured,
            **self.agreement.to_json(),
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Calibration:
        """Return the calibration from data of `to_json`. Raises `KeyError`, `TypeError` or `ValueError`."""
        low, high = given["interval"]
        agreement = JudgeAgreement(
            pairs=int(given["pairs"]),
            interval=(float(low), float(high)),
            **{name: float(given[name]) for name in ("agreement", "kappa", "disagreed", "abstained")},
        )
        return cls(str(given["model"]), str(given["source"]), str(given["measured"]), agreement)


async def agreement_of(
    judge: Judge,
    pairs: Sequence[LabelledPair],
    *,
    at_once: int = 4,
    seed: int = 0,
    told: Callable[[int], None] = lambda done: None,
) -> JudgeAgreement:
    """Let the judge compare every pair; return how well its verdicts agree with the labels.

    `told` receives the number of finished pairs after each pair. Raises `HermesError` if the judge cannot be
    used.
    """
    turns = asyncio.Semaphore(at_once)
    done = 0

    async def one(pair: LabelledPair) -> PairVerdict:
        nonlocal done
        async with turns:
            verdict = await judge.prefer(pair.prompt, pair.a, pair.b)
        done += 1
        told(done)
        return verdict

    asked = [asyncio.ensure_future(one(pair)) for pair in pairs]
    try:
        said = await asyncio.gather(*asked)
    finally:
        for task in asked:
            task.cancel()
    both = [(pair.label, verdict.winner) for pair, verdict in zip(pairs, said, strict=True)]
    return JudgeAgreement(
        pairs=len(pairs),
        agreement=sum(label == winner for label, winner in both) / len(both),
        kappa=kappa(both),
        interval=kappa_interval(both, seed),
        disagreed=sum(verdict.disagreed for verdict in said) / len(said),
        abstained=sum(verdict.abstained for verdict in said) / len(said),
    )


log = logging.getLogger(__name__)

Told = Callable[[str, int, int], None]
"""Receives the name of the judge, the number of finished pairs, and the number of all pairs."""


async def calibrate(
    model: str,
    pairs: CalibrationSet | None,
    environ: Mapping[str, str],
    *,
    seed: int = 0,
    again: bool = False,
    told: Told = lambda model, done, pairs: None,
) -> Calibration:
    """Measure how well a judge agrees with `pairs`, or with the bundled ones if that is None; return the
    result.

    An empty `model` means the default model. Earlier results are reused unless `again` is set. Raises
    `HermesError` if the judge cannot be used.
    """
    home = Home.locate(dict(environ))
    loaded = await asyncio.to_thread(load, home, environ)
    chosen = pairs or await asyncio.to_thread(bundled_pairs)
    async with open_judge(loaded, home, model) as judge:
        place = home.judges / f"{_key(judge, chosen)}.json"
        kept = None if again else await asyncio.to_thread(_read_calibration, place)
        if kept is not None:
            return kept
        heard = partial(told, judge.model)
        heard(0, len(chosen.pairs))
        agreement = await agreement_of(
            judge, chosen.pairs, seed=seed, told=lambda done: heard(done, len(chosen.pairs))
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    made = Calibration(judge.model, chosen.name, now, agreement)
    await asyncio.to_thread(_keep, place, made)
    return made


def _key(judge: Judge, pairs: CalibrationSet) -> str:
    return sha256(f"{judge.identity} {pairs.name} {pairs.digest}".encode()).hexdigest()[:32]


def _read_calibration(place: Path) -> Calibration | None:
    """Return the stored calibration; None if it is missing or unreadable."""
    try:
        return Calibration.from_json(json.loads(place.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _keep(place: Path, made: Calibration) -> None:
    """Store a calibration for the next run. Errors are only logged."""
    new = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        private_folder(place.parent)
        new.write_text(json.dumps(made.to_json()), "utf-8")
        new.chmod(PRIVATE_FILE)
        new.replace(place)
    except OSError as error:
        log.warning("%s cannot be written: %s", place, error)
        with suppress(OSError):
            new.unlink(missing_ok=True)


RESULT = "result.json"
VERSION = 1
_LARGEST = 500_000_000
"""The maximum size in bytes of a result file that is read."""
_OF_ALL = ("suite", "runs", "seed", "model", "version")
_TEXTS = ("task", "outcome", "session", "error")
_COUNTS = ("run", "calls", "tokens")


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The figures of one run of one task. `score` is the share of passed checks, `cost` is in US dollars."""

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
        """True if a model judged the run."""
        return any(str(check["check"]).removeprefix("not ").startswith("judge: ") for check in self.checks)

    @property
    def why(self) -> str:
        """The reason why a run did not pass: its error, the first failed check, or its outcome."""
        broken = next((check for check in self.checks if check["passed"] is False), None)
        if self.error or broken is None:
            return self.error or self.outcome
        return " – ".join(part for part in (broken["check"], broken["detail"]) if part)


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """All runs of a suite, and the conditions under which they ran.

    `skills` and `memory` tell whether sessions could use those of the home folder. `judge` is the agreement
    of the judging model with labelled pairs.
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
        """Return the runs of each task, by task name."""
        found: dict[str, list[RunFigures]] = {}
        for each in self.runs_of_tasks:
            found.setdefault(each.task, []).append(each)
        return found

    def summary(self) -> dict[str, Any]:
        """Return the figures for all runs: shares with a confidence interval, and sums."""
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
    """Return the figures for a result of the batch runner."""
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
    """Return the result stored in a file, or in a folder. Raises `ConfigError`."""
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
    """Return the result in data of `to_json`. Raises `ValueError`, `KeyError` or `TypeError`."""
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

    Raises `TypeError` for a wrong type, and `ValueError` for a number out of range.
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
"""The p-value below which a difference is significant."""


@dataclass(frozen=True, slots=True)
class ResultComparison:
    """A comparison of two results, A and B.

    `difference` is the pass rate of B minus that of A, over the tasks that both have.
    """

    tasks: int
    difference: float
    interval: tuple[float, float]
    p: float
    significant: bool
    better: Literal["A", "B", "none"]
    worse: tuple[str, ...]
    """Tasks that passed less often in B."""
    improved: tuple[str, ...]
    tokens: float
    """The tokens used in B, divided by those used in A."""
    only_in_one: tuple[str, ...]
    doubt: str = ""
    """A sentence on why a judge's scores in one of them are not reliable; empty if there is no doubt."""
    conditions: tuple[str, ...] = ()
    """Conditions that differ between them besides the model: `skills`, `memory`, `judge`."""

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
    """Compare A with B. Raises `ConfigError` if their suites differ, or if they share no task."""
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
