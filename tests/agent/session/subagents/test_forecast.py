from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.core.event_data import ForecastSpan
from agent.model.catalog import ModelInfo
from agent.session.spending.budget import Budget
from agent.session.subagents.forecast import FEW, Planned, forecast

PRICED = ModelInfo(input_price=3.0, output_price=15.0, cached_price=0.3)


def planned(**given: object) -> Planned:
    values: dict[str, object] = {"goal": "look", "model": "m", "start": 5_000, "info": PRICED, **given}
    return Planned(**values)  # pyright: ignore[reportArgumentType]


def test_several_agents_take_as_much_as_each_of_them() -> None:
    one = forecast([planned()])
    three = forecast([planned()] * 3)
    assert three.tokens == ForecastSpan(one.tokens.low * 3, one.tokens.high * 3)
    assert one.money is not None and three.money is not None
    assert abs(three.money.high - 3 * one.money.high) < 1e-9
    assert three.models == (("m", 3),) and three.agents == 3


def test_an_unknown_price_makes_the_whole_cost_unknown() -> None:
    assert forecast([planned(), planned(info=ModelInfo())]).money is None


def test_the_low_end_counts_on_the_cache_and_the_high_end_does_not() -> None:
    told = forecast([planned(budget=Budget(tokens=10_000))]).money
    assert told is not None and 0 < told.low < told.high


def test_a_model_without_a_price_for_what_is_cached_has_a_cost_all_the_same() -> None:
    assert forecast([planned(info=ModelInfo(input_price=1.0, output_price=2.0))]).money is not None


def test_a_model_that_costs_nothing_costs_nothing() -> None:
    free = ModelInfo(input_price=0.0, output_price=0.0, cached_price=0.0)
    assert forecast([planned(info=free)]).money == ForecastSpan(0.0, 0.0)


def test_a_few_ended_agents_say_nothing_and_more_of_them_say_all() -> None:
    few, more = [40_000] * (FEW - 1), [40_000] * FEW
    assert forecast([planned()], few) == forecast([planned()])
    learned = forecast([planned()], more)
    assert learned.tokens == ForecastSpan(40_000, 40_000) and learned.from_past == FEW


def test_no_agent_takes_less_than_its_first_request() -> None:
    assert forecast([planned(start=50_000)], [10] * 9).tokens.low > 50_000


def test_ceilings_of_requests_of_tokens_and_of_all_together_bound_both_ends() -> None:
    one_request = forecast([planned(budget=Budget(turns=1))]).tokens
    assert one_request.high < forecast([planned(budget=Budget(turns=2))]).tokens.high
    assert forecast([planned(budget=Budget(tokens=700))]).tokens == ForecastSpan(700, 700)
    whole, half = forecast([planned()] * 4), forecast([planned()] * 4, left=30_000)
    assert half.tokens.high == 30_000 and half.left == 30_000
    assert half.money is not None and whole.money is not None and half.money.high < whole.money.high


@given(
    st.lists(st.integers(0, 10**7), max_size=12),
    st.lists(st.tuples(st.integers(1, 10**6), st.none() | st.integers(1, 10**7)), max_size=6),
    st.none() | st.integers(0, 10**7),
)
def test_the_low_end_never_lies_above_the_high_one_and_no_ceiling_is_passed(
    past: list[int], agents: list[tuple[int, int | None]], left: int | None
) -> None:
    told = forecast([planned(start=start, budget=Budget(tokens=most)) for start, most in agents], past, left)
    assert 0 <= told.tokens.low <= told.tokens.high
    assert told.money is not None and 0 <= told.money.low <= told.money.high + 1e-9
    if left is not None:
        assert told.tokens.high <= left
    if all(most is not None for _, most in agents):
        assert told.tokens.high <= sum(most or 0 for _, most in agents)


def test_a_ceiling_that_leaves_next_to_nothing_never_turns_the_money_round() -> None:
    told = forecast([planned(start=1, budget=Budget())], [0, 0, 0, 0, 402], 1)
    assert told.money is not None and told.money.low <= told.money.high
