"""Order of what words and meaning found, in which meaning adds and words keep their ground. Pure.

By themselves the vectors find far less than words do, and in equal parts both find less than words alone.
So meaning counts little where the words of a question are found together, and more the less of them is found.
Of the first twenty it never moves down what holds all of them, and what words put at the n-th place stays
among the first 2n; a session falls by one place at most.

The constants were chosen on LoCoMo and on `benchmarks/data/paraphrases.txt`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

SHARE = 0.1
"""The least that meaning counts."""

_ENOUGH = 0.6
"""The share of what a question could score at which its words are found."""
_STEEPNESS = 2
"""How quickly meaning counts more where less is found."""
_KEPT = 20
"""Places of words for which that holds."""
_FOUND = 0.4
"""The confidence from which on sessions keep their places."""


class Contender(NamedTuple):
    """Something that may be an answer."""

    words: float
    """Its score by words, 0 where none led there."""
    cosine: float | None
    """How nearly it means the same; None: nobody knows, it stands where words put it."""
    is_whole: bool = False
    """Whether it holds each word of the question itself."""


def confidence(best: float, possible: float) -> float:
    """How surely words found what was meant, 0 to 1, by the best score and what a whole answer scores."""
    if possible <= 0:
        return 0.0
    return min(1.0, best / (_ENOUGH * possible)) ** _STEEPNESS


def fused(contenders: Sequence[Contender], sure: float) -> list[tuple[int, float]]:
    """The order of contenders: the index of each and its score, which never grows from one to the next.

    `sure` is the `confidence`. Candidates come in the order words alone put them into, those that only
    meaning found after them.
    """
    best = max((each.words for each in contenders), default=0.0) or 1.0
    share = SHARE + (1 - SHARE) * (1 - sure)

    def score(each: Contender) -> float:
        by_words = each.words / best
        if each.cosine is None:
            return by_words
        return (1 - share) * by_words + share * max(each.cosine, 0.0)

    scores = [score(each) for each in contenders]
    order = sorted(range(len(scores)), key=lambda at: -scores[at])
    kept = list(_kept(order, _latest(contenders)))
    found: list[tuple[int, float]] = []
    highest = 0.0
    for at in reversed(kept):
        highest = max(highest, scores[at])
        found.append((at, highest))
    return found[::-1]


def ordered_sessions(ranked: Sequence[T], by_words: Sequence[T], sure: float) -> list[T]:
    """Sessions as ranked, where of the first of those that words found none falls by more than one place.

    That holds where words found something; `sure` is the `confidence`. A session has many messages, so
    what some of them mean by chance moves it further than one message.
    """
    if sure < _FOUND:
        return list(ranked)
    return list(_kept(ranked, {session: at + 1 for at, session in enumerate(by_words[:_KEPT])}))


def spaced(found: Sequence[T], every: Callable[[T], int]) -> list[T]:
    """The order, in which what has `every` n takes each n-th place at most while others are left."""
    order: list[T] = []
    waiting: list[T] = []
    for each in found:
        if every(each) > 1:
            waiting.append(each)
            continue
        while waiting and (len(order) + 1) % every(waiting[0]) == 0:
            order.append(waiting.pop(0))
        order.append(each)
    return order + waiting


def _latest(contenders: Sequence[Contender]) -> dict[int, int]:
    """The last place that each of the first contenders may take which words found."""
    return {
        at: at if each.is_whole else 2 * at + 1
        for at, each in enumerate(contenders[:_KEPT])
        if each.words > 0
    }


def _kept(order: Sequence[T], latest: dict[T, int]) -> Iterator[T]:
    """The order, in which each of `latest` stands at that place or before."""
    waiting = list(order)
    for place in range(len(order)):
        tight = _tight(latest.values(), place)
        at = next(each for each in waiting if tight is None or latest.get(each, tight + 1) <= tight)
        waiting.remove(at)
        latest.pop(at, None)
        yield at


def _tight(latest: Collection[int], place: int) -> int | None:
    """The first place up to which only those may stand that have to; None where there is none."""
    for count, last in enumerate(sorted(latest), 1):
        if count > last - place:
            return last
    return None
