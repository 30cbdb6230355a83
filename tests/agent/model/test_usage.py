"""Tokens, money, and the size of texts."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.core.event_data import Usage
from agent.model.catalog import FREE, UNKNOWN, ModelInfo
from agent.model.usage import LARGEST_RATIO, LEAST_RATIO, Meter, most_cost, request_cost, usage_record

PRICED = ModelInfo(context_window=1000, input_price=2.0, output_price=8.0, cached_price=0.5)


def test_cached_input_has_its_own_price() -> None:
    assert request_cost(Usage(1_000_000, 500_000, 400_000), PRICED) == pytest.approx(
        0.6 * 2 + 0.4 * 0.5 + 0.5 * 8
    )


def test_input_written_to_the_cache_has_its_own_price_else_that_of_input() -> None:
    usage = Usage(100, 0, 50, written=30)
    kept = ModelInfo(input_price=2.0, output_price=8.0, cached_price=0.5, written_price=2.5)
    assert request_cost(usage, kept) == pytest.approx((20 * 2 + 50 * 0.5 + 30 * 2.5) / 1e6)
    assert request_cost(usage, PRICED) == pytest.approx((50 * 2 + 50 * 0.5) / 1e6)
    assert most_cost(100, 10, kept) == pytest.approx((100 * 2.5 + 10 * 8) / 1e6)
    assert most_cost(100, 10, PRICED) == request_cost(Usage(100, 10), PRICED)


@pytest.mark.parametrize(
    ("usage", "info"),
    [
        (Usage(100, 10), UNKNOWN),
        (Usage(0, 0), UNKNOWN),
        (Usage(None, 10), PRICED),
        (Usage(100, None), PRICED),
        (Usage(100, 10), ModelInfo(input_price=1)),
        (Usage(100, 10), ModelInfo(output_price=1)),
        (Usage(100, 10, 50), ModelInfo(input_price=1, output_price=1)),
    ],
)
def test_what_is_unknown_makes_the_cost_unknown_never_zero(usage: Usage, info: ModelInfo) -> None:
    assert request_cost(usage, info) is None


def test_a_price_that_does_not_matter_may_be_unknown() -> None:
    assert request_cost(Usage(100, 10, 0), ModelInfo(input_price=1, output_price=1)) == pytest.approx(110e-6)
    assert request_cost(Usage(100, 10, 50), FREE) == 0


def test_more_cached_than_input_is_not_believed() -> None:
    assert request_cost(Usage(100, 0, 500), PRICED) == pytest.approx(100 * 0.5e-6)


def test_a_session_adds_up() -> None:
    meter = Meter(PRICED)
    meter.add(Usage(100, 10, 50), 400)
    meter.add(Usage(200, 20), 800)
    totals = meter.totals()
    assert (totals["requests"], totals["input"], totals["output"], totals["cached"]) == (2, 300, 30, 50)
    assert totals["cost"] == pytest.approx((250 * 2 + 50 * 0.5 + 30 * 8) / 1e6)
    assert meter.window == 1000


def test_one_unknown_request_makes_the_sum_unknown() -> None:
    meter = Meter(PRICED)
    meter.add(Usage(100, 10), 400)
    meter.add(Usage(), 400)
    meter.add(Usage(100, 10), 400)
    assert meter.totals()["cost"] is None
    assert meter.totals()["input"] == 200


def test_each_route_has_its_own_prices() -> None:
    meter = Meter(PRICED, {"a": PRICED, "b": FREE})
    meter.add(Usage(100, 0), 400, "a")
    meter.add(Usage(100, 0), 400, "b")
    assert meter.totals()["cost"] == pytest.approx(200e-6)
    meter.add(Usage(100, 0), 400, "c")
    assert meter.totals()["cost"] is None


def test_the_ratio_is_learned_from_the_last_count() -> None:
    meter = Meter()
    assert meter.estimate(4000) == 1000
    meter.add(Usage(1000, 10), 3000)
    assert meter.estimate(3000) == 1000
    meter.add(Usage(1000, 10), 5000)
    assert meter.estimate(5001) == 1001
    meter.add(Usage(None, None), 9)
    assert meter.ratio == 5


@pytest.mark.parametrize(
    ("size", "tokens", "ratio"), [(1, 1000, LEAST_RATIO), (10**9, 1, LARGEST_RATIO), (100, 0, 4)]
)
def test_counts_beyond_belief_are_bounded(size: int, tokens: int, ratio: float) -> None:
    meter = Meter()
    meter.add(Usage(tokens, 1), size)
    assert meter.ratio == ratio


@given(st.integers(-5, 10**7), st.integers(1, 10**6), st.integers(1, 10**7))
@example(0, 4049, 10_800)
def test_estimates_are_never_negative_and_invert(size: int, tokens: int, sent: int) -> None:
    meter = Meter()
    meter.add(Usage(tokens, 0), sent)
    assert meter.estimate(size) >= 0
    assert meter.estimate(meter.characters(tokens)) <= tokens
    assert meter.characters(meter.estimate(size)) >= size - 1


def test_requests_of_side_models_count_and_are_kept_with_the_next_message() -> None:
    meter = Meter(PRICED, {"a": PRICED, "side": PRICED})
    meter.add(Usage(1_000, 100), 400, "a")
    ratio = meter.ratio
    meter.add_aside(Usage(500, 50), "side")
    assert (meter.totals()["requests"], meter.totals()["input"], meter.ratio) == (2, 1_500, ratio)
    kept = {"model": "a", "usage": usage_record(Usage(1_000, 100)), "aside": meter.take_aside()}
    assert meter.take_aside() == []
    again = Meter(PRICED, {"a": PRICED, "side": PRICED})
    again.add_past([kept, {}, {"aside": None}])
    assert again.totals() == meter.totals()
