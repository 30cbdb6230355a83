"""Refusals slow the line down, answers speed it up, and nobody loses the place."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from agent.model.transport.waits import LARGEST_GAP, LONGEST_WAIT, Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def made() -> tuple[Throttle, Clock]:
    clock = Clock()
    return Throttle(clock=clock, sleep=clock.sleep), clock


async def test_at_full_speed_nobody_waits() -> None:
    throttle, clock = made()
    assert [await throttle.admit() for _ in range(5)] == [100.0] * 5
    assert clock.now == 100.0


async def test_after_a_refusal_requests_follow_each_other_with_a_gap_and_in_order() -> None:
    throttle, _ = made()
    throttle.record_refusal(await throttle.admit())
    order: list[tuple[int, float]] = []

    async def ask(number: int) -> None:
        order.append((number, await throttle.admit()))

    await asyncio.gather(*(ask(number) for number in range(4)))
    assert [number for number, _ in order] == [0, 1, 2, 3]
    moments = [moment for _, moment in order]
    assert moments[0] >= 100.5
    assert all(after - before >= 0.5 for before, after in pairwise(moments))


async def test_one_storm_counts_once_and_the_next_one_doubles_the_gap() -> None:
    throttle, clock = made()
    together = [await throttle.admit() for _ in range(3)]
    for admitted in together:
        throttle.record_refusal(admitted)
    assert throttle.gap == 0.5
    clock.now += 10
    throttle.record_refusal(await throttle.admit())
    assert throttle.gap == 1.0
    for _ in range(20):
        clock.now += 1000
        throttle.record_refusal(await throttle.admit())
    assert throttle.gap == LARGEST_GAP


async def test_the_wish_of_the_provider_is_kept_within_reason() -> None:
    throttle, _ = made()
    throttle.record_refusal(await throttle.admit(), 20)
    assert await throttle.admit() == 120.0
    throttle.record_refusal(120.0, 1e9)
    assert await throttle.admit() == 120.0 + LONGEST_WAIT


async def test_answers_bring_full_speed_back_slowly() -> None:
    throttle, _ = made()
    throttle.record_refusal(await throttle.admit())
    throttle.record_answer()
    assert 0 < throttle.gap < 0.5
    for _ in range(12):
        throttle.record_answer()
    assert throttle.gap == 0.0


async def test_one_that_gives_up_in_the_line_holds_nobody_up() -> None:
    throttle = Throttle()
    throttle.record_refusal(await throttle.admit(), 0.05)
    first, second = asyncio.create_task(throttle.admit()), asyncio.create_task(throttle.admit())
    await asyncio.sleep(0)
    first.cancel()
    assert await asyncio.wait_for(second, 60) > 0
