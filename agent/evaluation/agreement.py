"""Agreement of a judge with people: labelled pairs, what is beyond chance, changes of mind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent.checks.judge import Judge, Winner
from agent.errors import ExitCode, HermesError
from agent.evaluation.statistics import kappa, kappa_interval

ENOUGH = 0.6
"""Agreement beyond chance below which figures of a judge do not count."""


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


def read_pairs(text: str, name: str) -> Sequence[LabelledPair]:
    """Pairs from JSON lines. Raises `PairsUnreadableError` naming the line."""
    found: list[LabelledPair] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
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
        found.append(LabelledPair(str(given.get("id") or number), prompt, first, second, label))
    if not found:
        raise PairsUnreadableError(f"{name} holds no pairs.")
    return found


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """`agreement` is the share of equal verdicts, `kappa` what of it is beyond chance."""

    pairs: int
    agreement: float
    kappa: float
    interval: tuple[float, float]
    disagreed: float
    """Share of pairs on which the judge changed its mind with the order."""

    @property
    def counts(self) -> bool:
        """Whether figures of this judge may be relied on."""
        return self.kappa >= ENOUGH

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "interval": list(self.interval), "counts": self.counts}


async def agreement_of(
    judge: Judge, pairs: Sequence[LabelledPair], *, at_once: int = 4, seed: int = 0
) -> JudgeAgreement:
    """Ask the judge about every pair. Raises `HermesError` where it cannot be asked."""
    turns = asyncio.Semaphore(at_once)

    async def one(pair: LabelledPair) -> tuple[str, bool]:
        async with turns:
            said = await judge.prefer(pair.prompt, pair.a, pair.b)
            return said.winner, said.disagreed

    said = await asyncio.gather(*(one(pair) for pair in pairs))
    both = [(pair.label, winner) for pair, (winner, _) in zip(pairs, said, strict=True)]
    return JudgeAgreement(
        pairs=len(pairs),
        agreement=sum(label == winner for label, winner in both) / len(both),
        kappa=kappa(both),
        interval=kappa_interval(both, seed),
        disagreed=sum(changed for _, changed in said) / len(said),
    )
