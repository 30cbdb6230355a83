"""What is said of forecasts and ceilings, and what a person may write to raise one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.events import CeilingAsked
from app.tui.questions.budget_words import ceiling_text, least_increase, parse_increase, raise_label
from tests.support import story


async def tokens(**facts: object) -> CeilingAsked:
    return story.ceiling(**facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "ceiling"),
    [
        ("500k", 2_500_000),
        (" 1.5M ", 3_500_000),
        ("100,000", 2_100_000),
        ("100_000 tokens", 2_100_000),
        ("100 000", 2_100_000),
        ("18600", 2_018_600),
    ],
)
async def test_a_number_may_be_written_as_people_do(text: str, ceiling: float) -> None:
    assert parse_increase(text, await tokens()) == (ceiling, "")


@pytest.mark.parametrize(
    "text", ["", "lots", "-5", "0", "18599", "1e9", "nan", "inf", "٣٠٠٠٠٠", "5" * 50, "1.2.3m", "k", "0x10"]
)
async def test_what_is_no_number_or_too_little_raises_nothing(text: str) -> None:
    ceiling, wrong = parse_increase(text, await tokens())
    assert ceiling == 0 and wrong.endswith(".")


async def test_money_is_written_with_or_without_its_sign() -> None:
    day = await tokens(measure="money", ceiling=20.0, used=19.96, needed=0.31, again=40.0)
    assert parse_increase("$2.50", day) == parse_increase("2.5", day) == (22.5, "")
    assert parse_increase(".1", day) == (0.0, "Give at least $0.27 more.")
    assert raise_label(day) == "Raise it by $20.00, to $40.00"


@pytest.mark.thorough
@settings(max_examples=100)
@given(
    text=st.text(max_size=50),
    used=st.integers(0, 10**9),
    needed=st.integers(0, 10**6),
    ceiling=st.integers(1, 10**9),
)
async def test_what_is_accepted_is_always_enough(text: str, used: int, needed: int, ceiling: int) -> None:
    request = await tokens(used=used, needed=needed, ceiling=ceiling)
    raised, wrong = parse_increase(text, request)
    assert wrong or (raised > ceiling and raised >= used + needed)


async def test_the_sentence_names_whose_ceiling_it_is_in_one_line() -> None:
    said = ceiling_text(await tokens(owner="a\nb"))
    assert said.startswith("The ceiling of a b is reached: 1,987,400 of 2,000,000 tokens used.")
    assert least_increase(await tokens()) == 18_600
