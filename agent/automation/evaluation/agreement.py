"""Agreement of a judge with people: verdicts compared with labels, and statistics about it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from agent.automation.checks.judge import Judge, open_judge
from agent.core.config.loader import load
from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError, ExitCode, HermesError

if TYPE_CHECKING:
    from agent.automation.checks.judge import PairVerdict, Winner


RESAMPLES = 4_000
CONFIDENCE = 0.95


def pass_at(k: int, runs: int, passed: int) -> float:
    """Estimate the chance that at least one of `k` runs passes, if `passed` of `runs` did.

    The estimate is unbiased.
    """
    if runs - passed < k:
        return 1.0
    return 1.0 - math.prod((runs - passed - i) / (runs - i) for i in range(k))


def wilson(passed: int, runs: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the Wilson confidence interval of a proportion; (0, 1) without runs."""
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
    """Return a bootstrap confidence interval for the mean of `values`."""
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

    It is 0.0 if both raters gave the same single label every time.
    """
    if not pairs:
        return 0.0
    agreed = sum(first == second for first, second in pairs) / len(pairs)
    firsts, seconds = Counter(each for each, _ in pairs), Counter(each for _, each in pairs)
    chance = sum(firsts[label] * seconds[label] for label in firsts) / len(pairs) ** 2
    return 0.0 if chance == 1.0 else (agreed - chance) / (1 - chance)


def kappa_interval(pairs: Sequence[tuple[str, str]], seed: int) -> tuple[float, float]:
    """Return a bootstrap confidence interval for `kappa`."""
    if len(pairs) < 2:
        return -1.0, 1.0
    draw = random.Random(seed)
    found = sorted(kappa(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES // 4))
    return found[int(0.025 * len(found))], found[min(len(found) - 1, int(0.975 * len(found)))]


def bounded_text(path: Path, largest: int, shorter: str) -> str:
    """Read a UTF-8 file of at most `largest` bytes. `shorter` says in the error how to shorten the file.

    Raises `ConfigError` naming the file and the error.
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
"""Agreement beyond chance below which figures of a judge do not count."""
FEWEST = 20
"""Pairs below which agreement with them says too little."""
_BUNDLED = Path(__file__).with_name("pairs.jsonl")
_LARGEST = 50_000_000
"""Bytes of a file of pairs that are read."""


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two answers to a prompt and the one that people prefer: `a`, `b` or `tie`."""

    id: str
    prompt: str
    a: str
    b: str
    label: Winner


class PairsUnreadableError(HermesError):
    """Error: a file of labelled pairs cannot be used."""

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
    """Return the 100 pairs that ship with the program."""
    return CalibrationSet("bundled", tuple(read_pairs(_BUNDLED.read_text("utf-8"), _BUNDLED.name)))


def pairs_in(path: Path) -> CalibrationSet:
    """Return the pairs of a file. Raises `ConfigError` or `PairsUnreadableError` naming the fault."""
    text = bounded_text(path, _LARGEST, "use fewer pairs")
    return CalibrationSet(path.name, tuple(read_pairs(text, path.name)))


def read_pairs(text: str, name: str) -> Sequence[LabelledPair]:
    """Return pairs from JSON lines. Raises `PairsUnreadableError` naming the line."""
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

    `agreement` is the share of equal verdicts, and `kappa` corrects it for chance.
    """

    pairs: int
    agreement: float
    kappa: float
    interval: tuple[float, float]
    disagreed: float
    """Share of pairs on which the judge changed its mind with the order; they count as ties."""
    abstained: float = 0.0
    """Share of pairs on which it gave no verdict that can be read; they count as ties."""

    @property
    def counts(self) -> bool:
        """Return whether the agreement is high enough to rely on this judge."""
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
    """What the set is called."""
    measured: str
    """When, as an ISO time with zone."""
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
        """Read data written by `to_json`. Raises `KeyError`, `TypeError` or `ValueError` for invalid data."""
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
    """Ask the judge about every pair, and compare its verdicts with the labels.

    `told` receives the number of finished pairs after each one. Raises `HermesError` if the judge cannot be
    asked.
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
"""Hears the name of the judge, how many pairs are done and of how many; at first before it is asked."""


async def calibrate(
    model: str,
    pairs: CalibrationSet | None,
    environ: Mapping[str, str],
    *,
    seed: int = 0,
    again: bool = False,
    told: Told = lambda model, done, pairs: None,
) -> Calibration:
    """Measure how well a judge agrees with `pairs`, or with the bundled ones if that is None.

    An empty `model` means the default model. Earlier results are reused unless `again` is set. Raises
    `HermesError` if the judge cannot be asked.
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
    """Store a calibration for the next run, if possible."""
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
