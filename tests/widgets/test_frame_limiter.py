"""Pictures at their pace: the first at once, the next ones no sooner than they may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from widgets.transcript import view
from widgets.transcript.view import FrameLimiter

LONG = 3_600.0
"""Seconds no test lasts."""


class Painter:
    """Counts pictures; each asks for the same rest."""

    def __init__(self, rest: float) -> None:
        self.rest = rest
        self.pictures = 0
        self.faults: list[Exception] = []
        self.pace = FrameLimiter(self.paint, self.faults.append)

    def paint(self) -> float:
        self.pictures += 1
        return self.rest


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_first_picture_is_painted_at_once_however_often_it_is_asked_for():
    painter = Painter(LONG)
    for _ in range(10):
        painter.pace.soon()
    assert painter.pictures == 0 and painter.pace.waiting
    await turns()
    assert painter.pictures == 1 and not painter.pace.waiting


async def test_the_next_picture_waits_for_the_rest_the_last_one_asked_for():
    painter = Painter(LONG)
    painter.pace.soon()
    await turns()
    painter.pace.soon()
    await turns(50)
    assert painter.pictures == 1
    painter.pace.stop()


async def test_what_is_asked_for_during_a_rest_is_painted_after_it():
    painter = Painter(0.01)
    for pictures in range(1, 4):
        painter.pace.soon()
        painter.pace.soon()
        while painter.pictures < pictures:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    assert painter.pictures == 3


async def test_a_picture_that_was_called_off_is_not_painted_and_can_be_asked_for_again():
    painter = Painter(0.0)
    painter.pace.soon()
    painter.pace.stop()
    await turns()
    assert painter.pictures == 0
    painter.pace.soon()
    await turns()
    assert painter.pictures == 1


async def test_a_fault_is_handed_over_and_the_next_picture_is_painted_all_the_same():
    painter = Painter(0.0)
    fault = RuntimeError("no paint")

    def paint() -> float:
        raise fault

    broken = FrameLimiter(paint, painter.faults.append)
    broken.soon()
    await turns()
    broken.soon()
    await turns()
    assert painter.faults == [fault, fault]


class Loop:
    """An event loop whose clock continues only while a picture is painted."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waiting: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> object:
        self.waiting.append((when, call))
        return object()

    def run(self) -> float:
        """Do what is due next; when that was."""
        when, call = self.waiting.pop(0)
        self.now = max(self.now, when)
        call()
        return when


@pytest.mark.parametrize(
    ("takes", "begins"), [(0.0, [0, 10, 20]), (4.0, [0, 10, 20]), (5.0, [0, 10, 20]), (30.0, [0, 60, 120])]
)
def test_pictures_begin_a_rest_apart_unless_painting_would_take_more_than_half_of_the_time(
    monkeypatch: pytest.MonkeyPatch, takes: float, begins: list[float]
) -> None:
    loop = Loop()
    monkeypatch.setattr(view, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))

    def paint() -> float:
        loop.now += takes
        return 10.0

    paced = FrameLimiter(paint, lambda error: None)
    seen: list[float] = []
    for _ in begins:
        paced.soon()
        seen.append(loop.run())
    assert seen == begins
