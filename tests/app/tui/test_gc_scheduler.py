"""When garbage is collected."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from app.tui.startup.gc_scheduler import MOST, NEVER, QUIET, REST, WAIT, GcScheduler


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[GcScheduler]:
    before = gc.get_threshold()
    collector = GcScheduler()
    collector.start()
    gc.freeze()
    gc.collect(1)
    collector.collect_if_idle(now=0.0, last_key=-QUIET)
    yield collector
    collector.stop()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
    # All the tests that were collected are set aside again.
    gc.freeze()


def test_python_makes_no_full_collection_of_its_own(collector: GcScheduler) -> None:
    assert gc.get_threshold()[2] == NEVER


def work() -> None:
    """Leave a middle collection behind, as work does."""
    gc.collect(1)


def test_a_collection_waits_until_nobody_types(collector: GcScheduler) -> None:
    work()
    assert not collector.collect_if_idle(now=100.0, last_key=100.0 - QUIET / 2)
    assert collector.collect_if_idle(now=100.0, last_key=100.0 - QUIET)


def test_the_next_collection_waits(collector: GcScheduler) -> None:
    work()
    assert collector.collect_if_idle(now=100.0, last_key=0.0)
    work()
    assert not collector.collect_if_idle(now=99.0 + WAIT, last_key=0.0)
    assert collector.collect_if_idle(now=100.0 + WAIT, last_key=0.0)


def test_nothing_is_collected_while_nothing_is_done(collector: GcScheduler) -> None:
    work()
    assert collector.collect_if_idle(now=100.0, last_key=0.0)
    assert not collector.collect_if_idle(now=200.0, last_key=0.0)


def test_garbage_goes_and_a_few_living_objects_stay_in_sight(collector: GcScheduler) -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    dead, alive = weakref.ref(Ring()), Ring()
    work()
    assert collector.collect_if_idle(now=100.0, last_key=98.0)
    assert dead() is None
    assert gc.get_freeze_count() <= frozen
    assert alive.itself is alive


def test_many_living_objects_are_set_aside(collector: GcScheduler) -> None:
    alive = [Ring() for _ in range(MOST // 4 + 1)]
    work()
    assert collector.collect_if_idle(now=100.0, last_key=98.0)
    assert gc.get_freeze_count() > len(alive)


@pytest.mark.thorough
def test_what_much_work_leaves_is_set_aside_unseen_and_goes_after_a_long_rest(collector: GcScheduler) -> None:
    rings = [Ring() for _ in range(MOST)]
    dead = weakref.ref(rings[0])
    work()
    del rings
    assert not collector.collect_if_idle(now=100.0, last_key=98.0)
    assert gc.get_freeze_count() > 0
    work()
    collector.collect_if_idle(now=100.0 + WAIT, last_key=98.0 + WAIT)
    assert dead() is not None
    assert collector.collect_if_idle(now=100.0 + WAIT + REST, last_key=98.0 + WAIT)
    assert dead() is None
