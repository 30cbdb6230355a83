"""Figures about runs: pass@k, intervals, agreement beyond chance, a paired test. Pure."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

RESAMPLES = 4_000
CONFIDENCE = 0.95


def pass_at(k: int, runs: int, passed: int) -> float:
    """The chance that one of `k` runs passes, estimated from `passed` of `runs` (unbiased)."""
    if runs - passed < k:
        return 1.0
    return 1.0 - math.prod((runs - passed - i) / (runs - i) for i in range(k))


def wilson(passed: int, runs: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """An interval for a share, after Wilson; (0, 1) where nothing was run."""
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
    """An interval for the mean of `values`, by drawing them again and again."""
    if len(values) < 2:
        return (values[0], values[0]) if values else (0.0, 0.0)
    draw = random.Random(seed)
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = (1 - confidence) / 2
    return means[int(tail * RESAMPLES)], means[min(RESAMPLES - 1, int((1 - tail) * RESAMPLES))]


def paired_p(passed: Sequence[tuple[int, int]], first: int, second: int) -> float:
    """The chance of a difference as large if the runs of each task were dealt to A and B at random.

    `passed` are the runs of each task that passed, of `first` in A and of `second` in B. Exact: how a task's
    passes fall to A is hypergeometric, and what matters is their sum. With one run each it is the sign test.
    """
    chances = [1.0]
    expected = 0.0
    for mine, others in passed:
        both = mine + others
        expected += both * first / (first + second)
        if 0 < both < first + second:
            chances = _convolved(chances, _hypergeometric(both, first, second))
        else:
            # It falls one way only.
            chances = [0.0] * (both * first // (first + second)) + chances
    seen = abs(sum(mine for mine, _ in passed) - expected)
    return min(1.0, math.fsum(p for n, p in enumerate(chances) if abs(n - expected) >= seen - 1e-9))


def _hypergeometric(passes: int, first: int, second: int) -> list[float]:
    """The chances that 0, 1, … of `passes` fall to `first` of all runs."""
    ways = math.comb(first + second, passes)
    return [math.comb(first, n) * math.comb(second, passes - n) / ways for n in range(min(first, passes) + 1)]


def _convolved(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """The chances of the sums of two counts."""
    sums = [0.0] * (len(first) + len(second) - 1)
    for n, p in enumerate(first):
        if p:
            for m, q in enumerate(second):
                sums[n + m] += p * q
    return sums


def kappa(pairs: Sequence[tuple[str, str]]) -> float:
    """Agreement of two raters beyond chance (Cohen); 0.0 where both always say one and the same.

    Nothing is beyond chance then.
    """
    if not pairs:
        return 0.0
    agreed = sum(first == second for first, second in pairs) / len(pairs)
    firsts, seconds = Counter(each for each, _ in pairs), Counter(each for _, each in pairs)
    chance = sum(firsts[label] * seconds[label] for label in firsts) / len(pairs) ** 2
    return 0.0 if chance == 1.0 else (agreed - chance) / (1 - chance)


def kappa_interval(pairs: Sequence[tuple[str, str]], seed: int) -> tuple[float, float]:
    """An interval for `kappa`, by drawing pairs again and again."""
    if len(pairs) < 2:
        return -1.0, 1.0
    draw = random.Random(seed)
    found = sorted(kappa(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES // 4))
    return found[int(0.025 * len(found))], found[min(len(found) - 1, int(0.975 * len(found)))]
