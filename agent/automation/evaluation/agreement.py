"""Agreement of a judge with people: labelled pairs, what is beyond chance, changes of mind."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.automation.evaluation.statistics import kappa, kappa_interval
from agent.automation.evaluation.text_file import bounded_text
from agent.errors import ExitCode, HermesError

if TYPE_CHECKING:
    from agent.automation.checks.judge import Judge, PairVerdict, Winner

ENOUGH = 0.6
"""Agreement beyond chance below which figures of a judge do not count."""
FEWEST = 20
"""Pairs below which agreement with them says too little."""
_BUNDLED = Path(__file__).with_name("pairs.jsonl")
_LARGEST = 50_000_000
"""Bytes of a file of pairs that are read."""


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two answers to a prompt and which one people prefer: `a`, `b` or `tie`."""

    id: str
    prompt: str
    a: str
    b: str
    label: Winner


class PairsUnreadableError(HermesError):
    """A file of labelled pairs cannot be used."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class CalibrationSet:
    """Labelled pairs and what they are called."""

    name: str
    pairs: tuple[LabelledPair, ...]

    @property
    def digest(self) -> str:
        """A hash of their content."""
        rows = [asdict(each) for each in self.pairs]
        return hashlib.sha256(json.dumps(rows, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def bundled_pairs() -> CalibrationSet:
    """The 100 pairs that ship with the program."""
    return CalibrationSet("bundled", tuple(read_pairs(_BUNDLED.read_text("utf-8"), _BUNDLED.name)))


def pairs_in(path: Path) -> CalibrationSet:
    """The pairs of a file. Raises `ConfigError` or `PairsUnreadableError` naming the fault."""
    text = bounded_text(path, _LARGEST, "use fewer pairs")
    return CalibrationSet(path.name, tuple(read_pairs(text, path.name)))


def read_pairs(text: str, name: str) -> Sequence[LabelledPair]:
    """Pairs from JSON lines. Raises `PairsUnreadableError` naming the line."""
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
    """`agreement` is the share of equal verdicts, `kappa` what of it is beyond chance."""

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
        """Whether figures of this judge may be relied on."""
        return self.kappa >= ENOUGH and self.pairs >= FEWEST

    def doubt(self) -> str:
        """Why they may not, as a sentence; empty where they may."""
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
    """How far a judge can be relied on, measured with a set of pairs."""

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
        """What `to_json` wrote. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
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
    """Ask the judge about every pair. Raises `HermesError` where it cannot be asked.

    `told` hears how many pairs are done, after each.
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
