"""How much a model thinks, as a person says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import ConfigError, HermesError
from agent.events import EffortChanged, SessionOpened
from agent.model.effort import effort_word, parse_effort
from tests.support.engines import bench
from tests.support.replies import say


@pytest.mark.parametrize(
    ("text", "level", "word"),
    [
        ("off", "off", "off"),
        (" HIGH ", "high", "high"),
        ("12000", 12_000, "12,000 tokens"),
        ("12,000", 12_000, "12,000 tokens"),
        ("8k", 8_000, "8,000 tokens"),
        ("1", 1, "1 token"),
    ],
)
def test_a_level_is_a_word_or_tokens(text: str, level: str | int, word: str) -> None:
    assert parse_effort(text) == level
    assert effort_word(parse_effort(text)) == word


@pytest.mark.parametrize("text", ["", "0", "-5", "much", "1.5", "k", "9" * 30, "٣", "1e5", "default", "²"])
def test_what_is_no_level_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="off, low, medium, high"):
        parse_effort(text)


@pytest.mark.thorough
async def test_a_chosen_effort_goes_with_the_next_request_and_stays_with_the_session(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _request: say("Yes.")) as b:
        b.config("model: {thinking: low}\n")
        async with b.engine() as engine:
            await engine.run("One.")
            assert await engine.set_effort("high") == "high"
            await engine.run("Two.")
            with pytest.raises(HermesError, match=r"no effort “loud”; it takes off, low"):
                await engine.set_effort("loud")
            assert engine.effort == "high"
            session = engine.session.id
        async with b.engine(resume=session) as engine:
            assert engine.effort == "high"
            await engine.run("Three.")
            await engine.set_effort("default")
            await engine.run("Four.")
        async with b.engine(resume=session) as engine:
            assert engine.effort == "low"
        async with b.engine(resume=session, effort="off") as engine:
            assert engine.effort == "off"
        with pytest.raises(ConfigError, match="--effort cannot be much: it takes off, low"):
            async with b.engine(effort="much"):
                pass
        asked = [request.body["reasoning_effort"] for request in b.server.requests]
        assert asked == ["low", "high", "high", "low"]
        assert [event.effort for event in b.seen(SessionOpened)] == ["low", "high", "low", "off"]
        assert [event.effort for event in b.seen(EffortChanged)] == ["high", "low"]
        # What is told to the person is not part of the conversation with the model.
        assert "next request" not in str(b.server.requests[-1].body["messages"])
