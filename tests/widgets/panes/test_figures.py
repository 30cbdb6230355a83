"""Numbers as a person reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.panes import status


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (42.9, "0:42"), (725, "12:05"), (12_011, "3:20:11"), (-3, "0:00")]
)
def test_a_growing_duration_counts_whole_seconds(seconds: float, text: str) -> None:
    assert status.elapsed(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.02, "0.0 s"), (1.93, "1.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.7, "1:00"), (125, "2:05")],
)
def test_how_long_it_took_has_a_unit(seconds: float, text: str) -> None:
    assert status.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (812, "812"),
        (999, "999"),
        (1000, "1k"),
        (8100, "8.1k"),
        (61_000, "61k"),
        (999_499, "999k"),
        (999_999, "1M"),
        (1_240_000, "1.2M"),
        (2_000_000_000, "2G"),
    ],
)
def test_tokens_are_short(count: int, text: str) -> None:
    assert status.tokens(count) == text


@pytest.mark.parametrize(
    ("dollars", "text"),
    [(0.0, "$0.00"), (0.004, "<$0.01"), (0.42, "$0.42"), (1234.5, "$1,234.50"), (None, "$–")],
)
def test_a_little_money_is_not_nothing(dollars: float | None, text: str) -> None:
    assert status.money(dollars) == text


@pytest.mark.parametrize("unknown", [None, math.nan, math.inf])
def test_unknown_is_never_zero(unknown: float | None) -> None:
    for write in (status.elapsed, status.duration, status.percent, status.money):
        assert "0" not in write(unknown)
    assert status.tokens(None) == "–"


@given(st.floats(allow_nan=True), st.integers(2, 20))
def test_a_gauge_has_its_width_and_full_means_full(share: float, cells: int) -> None:
    bar = status.gauge(share, cells)
    assert len(bar) == cells + 2
    full = bar.count("█")
    if 0 < share < 1:
        assert 1 <= full <= cells - 1
    elif share >= 1 and math.isfinite(share):
        assert full == cells
    else:
        assert full == 0
