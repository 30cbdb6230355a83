"""Before a question is put to several models, the person sees what that may take, as with agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.event_data import ForecastSpan
from agent.events import AgentStarted, ApprovalAsked, Decision, ForecastAsked
from agent.session.spending.budget import Budget
from agent.session.subagents.forecast import LONG_REPLY, REPLY, Planned, forecast
from app.tui.questions.budget_words import forecast_basis
from tests.agent.session.subagents.test_delegation import results
from tests.agent.session.subagents.test_forecast import PRICED
from tests.agent.session.subagents.test_forecast_question import answering
from tests.agent.session.subagents.test_mixture import CONFIG, QUESTION, TWO, by_model, mixture
from tests.support.engines import Bench

ALWAYS = CONFIG + "subagents: {{forecast_tokens: 0}}\n"
ROUNDS = {**TWO, "rounds": 2, "aggregator": "lab/two"}


async def ran(made: Bench, *choices: Decision, config: str = ALWAYS, **options: Any) -> Mapping[str, Any]:
    made.config(config.format(url=made.server.base_url))
    async with made.engine(**{"attended": True, **options}) as engine:
        answering(engine, *choices)
        await engine.run(f"Use the tool. {QUESTION}")
    return results(made)[0]


@pytest.mark.thorough
async def test_the_card_names_every_request_and_all_are_sent_after_a_yes(tmp_path: Path) -> None:
    async with mixture(tmp_path, ROUNDS, by_model) as made:
        result = await ran(made, Decision("once"), approve="careful")
        assert result["outcome"] == "completed"
        (card,) = made.seen(ForecastAsked)
        assert card.agent == "main" and card.forecast.single
        assert card.forecast.models == (("lab/one", 2), ("lab/two", 3))
        assert card.forecast.goals == (
            f"round 1, lab/one: {QUESTION}",
            f"round 1, lab/two: {QUESTION}",
            f"round 2, lab/one: {QUESTION}",
            f"round 2, lab/two: {QUESTION}",
            f"aggregator: {QUESTION}",
        )
        assert card.forecast.agents == len(made.seen(AgentStarted)) == 5
        tokens = result["usage"]["tokens"]
        assert tokens <= card.forecast.tokens.high and card.forecast.money is not None
        assert made.seen(ApprovalAsked) == []


async def test_after_a_no_nothing_was_asked_and_the_reason_reaches_the_model(tmp_path: Path) -> None:
    async with mixture(tmp_path, TWO, by_model) as made:
        result = await ran(made, Decision("deny", "Ask one only."))
        assert "Ask one only." in result["error"] and made.seen(AgentStarted) == []


@pytest.mark.thorough
async def test_it_is_not_asked_below_the_threshold_or_where_the_wish_was_not_to_be_asked(
    tmp_path: Path,
) -> None:
    async with mixture(tmp_path, TWO, by_model) as made:
        assert (await ran(made, config=CONFIG))["outcome"] == "completed"
        assert made.seen(ForecastAsked) == []


@pytest.mark.thorough
async def test_with_nobody_there_it_needs_a_ceiling(tmp_path: Path) -> None:
    free = CONFIG + "subagents: {{forecast_tokens: 1, tokens: null}}\n"
    async with mixture(tmp_path, TWO, by_model) as made:
        assert "no ceiling bounds them" in (await ran(made, config=free, attended=False))["error"]
    bounded = {**TWO, "budget": {"tokens": 50_000}}
    (tmp_path / "more").mkdir()
    async with mixture(tmp_path / "more", bounded, by_model) as made:
        assert (await ran(made, config=free, attended=False))["outcome"] == "completed"


async def test_a_model_of_the_aggregator_that_is_not_there_is_told_before_anybody_is_asked(
    tmp_path: Path,
) -> None:
    async with mixture(tmp_path, {**TWO, "aggregator": "demo"}, by_model) as made:
        assert "The demo model answers no agents." in (await ran(made))["error"]
        assert made.seen(AgentStarted) == [] and made.seen(ForecastAsked) == []


def planned(**given: Any) -> Planned:
    return Planned(**{"goal": "q", "model": "m", "start": 500, "info": PRICED, "only_answers": True, **given})


def test_it_is_one_request_each_whatever_agents_took_that_worked() -> None:
    made = forecast([planned(), planned(reads=2)], [90_000] * 50)
    assert made.tokens == ForecastSpan(2 * 500 + 4 * REPLY, 2 * 500 + 4 * LONG_REPLY)
    assert made.single and made.from_past == 0
    assert forecast_basis(made) == "one request each; nobody knows how long answers get"
    mixed = forecast([planned(), planned(only_answers=False)], [90_000] * 50)
    assert not mixed.single and mixed.from_past == 50


def test_money_is_what_in_and_output_of_that_request_cost() -> None:
    made = forecast([planned(reads=1)])
    assert made.money is not None
    assert made.money.low == pytest.approx((500 + REPLY) * 3e-6 + REPLY * 15e-6)
    assert made.money.high == pytest.approx((500 + LONG_REPLY) * 3e-6 + LONG_REPLY * 15e-6)


@given(st.integers(0, 10**6), st.integers(0, 8), st.one_of(st.none(), st.integers(1, 10**6)))
def test_the_low_end_is_never_above_the_high_one(start: int, reads: int, ceiling: int | None) -> None:
    made = forecast([planned(start=start, reads=reads, budget=Budget(tokens=ceiling))])
    assert 0 <= made.tokens.low <= made.tokens.high
    assert ceiling is None or made.tokens.high <= ceiling
    assert made.money is not None and 0 <= made.money.low <= made.money.high
