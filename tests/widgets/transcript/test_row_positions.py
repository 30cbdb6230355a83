"""Runs of rows are the rows, cut where the screen ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.segment import Segment
from textual.strip import Strip

from widgets.transcript.document import RowPosition, RowRun, above, below, height

RUNS = st.lists(st.integers(min_value=1, max_value=5), max_size=6)


def make(sizes: list[int]) -> list[RowRun]:
    return [
        RowRun(RowPosition(0, part, 0), [Strip([Segment(f"{part}.{row}")]) for row in range(size)])
        for part, size in enumerate(sizes)
    ]


def rows(runs):
    return [row for run in runs for row in run.rows()]


@settings(max_examples=60)
@given(RUNS, st.integers(min_value=0, max_value=20))
def test_the_first_rows_and_the_last_rows_are_those_of_the_whole(sizes, count):
    runs = make(sizes)
    whole = rows(runs)
    assert rows(below(runs, count)) == whole[:count]
    assert rows(above(reversed(runs), count)) == whole[max(len(whole) - count, 0) :]
    assert height(below(runs, count)) == min(count, len(whole))


def test_nothing_beyond_the_screen_is_asked_for():
    asked: list[int] = []

    def counted():
        for run in make([2, 2, 2]):
            asked.append(run.place.part)
            yield run

    assert height(below(counted(), 4)) == 4
    assert asked == [0, 1]
    asked.clear()
    assert height(above(counted(), 3)) == 3
    assert asked == [0, 1]
