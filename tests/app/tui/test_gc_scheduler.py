"""When garbage is collected."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from app.tui.startup.gc_scheduler import NEVER, QUIET, REST, WAIT, GcScheduler


class Ring:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def collector() -> Iterator[GcScheduler]:
    before = gc.get_threshold()
    collector = GcScheduler()
    collector.start()
    yield collector
    collector.stop()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
    # All the tests that were collected are set aside again.
    gc.freeze()


def test_python_makes_no_full_collection_of_its_own(collector: GcScheduler) -> None:
    assert gc.get_threshold()[2] == NEVER


def test_a_collection_waits_until_nobody_types(collector: GcScheduler) -> None:
    assert not collector.look(now=100.0, last_key=100.0 - QUIET / 2)
    assert collector.look(now=100.0, last_key=100.0 - QUIET)


def test_the_next_collection_waits(collector: GcScheduler) -> None:
    assert collector.look(now=100.0, last_key=0.0)
    assert not collector.look(now=99.0 + WAIT, last_key=0.0)
    assert collector.look(now=100.0 + WAIT, last_key=0.0)


@pytest.mark.thorough
def test_garbage_is_gone_and_what_lives_is_set_aside(collector: GcScheduler) -> None:
    dead, alive = weakref.ref(Ring()), Ring()
    collector.look(now=100.0, last_key=0.0)
    assert dead() is None
    assert gc.get_freeze_count() > 0
    assert alive.itself is alive


@pytest.mark.thorough
def test_what_was_set_aside_and_died_goes_after_a_long_rest(collector: GcScheduler) -> None:
    ring = Ring()
    dead = weakref.ref(ring)
    collector.look(now=100.0, last_key=98.0)
    del ring
    collector.look(now=100.0 + WAIT, last_key=98.0 + WAIT)
    assert dead() is not None
    collector.look(now=100.0 + WAIT + REST, last_key=98.0 + WAIT)
    assert dead() is None
