"""Speed as a row of bars."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widgets.panes.agents import ASCII, BARS, BLOCKS, KEPT, WINDOW, Pulse, bars, draws_ascii_only, pace

SPAN = BARS * WINDOW


def pulse(*counts: tuple[float, int]) -> Pulse:
    made = Pulse()
    for now, total in counts:
        made = made.with_count(now, total)
    return made


def test_nothing_is_known_before_the_second_count() -> None:
    assert pulse().rates(10) == () and pulse((0, 5)).rates(10) == ()


def test_what_came_between_two_counts_is_spread_over_the_time_between_them() -> None:
    assert pulse((0, 0), (SPAN, 800)).rates(SPAN) == pytest.approx((800 / SPAN,) * BARS)
    assert pulse((0, 0), (4, 400)).rates(8) == pytest.approx((100, 0))


def test_two_counts_at_one_moment_are_not_lost() -> None:
    assert sum(pulse((0, 0), (1, 10), (1, 50)).rates(2)) * WINDOW == pytest.approx(50)


def test_a_sum_that_did_not_grow_says_nothing() -> None:
    made = pulse((0, 0), (2, 10))
    assert made.with_count(5, 10) is made and made.with_count(5, 3) is made


def test_old_counts_go() -> None:
    assert len(pulse(*((at, at + 1) for at in range(100))).counts) == KEPT


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0.1, 9), st.integers(1, 10_000)), min_size=1, max_size=KEPT - 1))
def test_all_that_came_within_sight_is_in_the_bars(steps: list[tuple[float, int]]) -> None:
    now, total, made = 0.0, 0, Pulse().with_count(0.0, 0)
    for seconds, tokens in steps:
        now, total = now + seconds, total + tokens
        made = made.with_count(now, total)
    rates = made.rates(now)
    assert all(rate >= 0 for rate in rates) and len(rates) <= BARS
    if now <= SPAN:
        assert sum(rates) * WINDOW == pytest.approx(total)
    else:
        assert sum(rates) * WINDOW <= total * 1.000001


@given(st.lists(st.floats(0, 1e6), max_size=BARS), st.booleans())
def test_bars_have_one_width_and_the_highest_is_full(rates: list[float], ascii_only: bool) -> None:
    drawn = bars(rates, ascii_only=ascii_only)
    steps = ASCII if ascii_only else BLOCKS
    assert len(drawn) == BARS and set(drawn) <= {*steps, " "}
    assert drawn.isascii() or not ascii_only
    if any(rates):
        assert drawn[BARS - len(rates) + rates.index(max(rates))] == steps[-1]


def test_the_pace_is_the_mean() -> None:
    assert pace(()) == 0 and pace((1, 3)) == 2


def test_the_linux_console_gets_ascii() -> None:
    assert draws_ascii_only({"TERM": "linux"}) and not draws_ascii_only({"TERM": "xterm-256color"})
