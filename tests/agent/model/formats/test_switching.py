"""A conversation may change its model and its format at any time, and no provider refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.events import PrefixBroken, RequestStarted
from tests.support.delivery import Recorded
from tests.support.engines import bench
from tests.support.messages_form import MessagesForm
from tests.support.model_server import Reply, call, refuse, say
from tests.support.responses_form import ResponsesForm
from tests.support.switching import Walk


async def walked(folder: Path, seeds: range, switches: int) -> None:
    """Each seed is a conversation with so many switches."""
    prefixes = hits = 0
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        walk = Walk(place, seed)
        await walk.run(switches)
        assert (seed, walk.refusals, walk.undeclared()) == (seed, [], [])
        assert walk.switches >= switches
        prefixes += walk.messages.prefixes
        hits += walk.messages.hits
    assert prefixes > switches * len(seeds) / 4
    assert hits >= 0.95 * prefixes


@pytest.mark.thorough
async def test_models_and_formats_change_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    await walked(tmp_path, range(2), 40)


@pytest.mark.thorough
async def test_a_thousand_changes(tmp_path: Path) -> None:
    await walked(tmp_path, range(100, 120), 50)


CONFIG = """
model: {{name: first/claude-sonnet-4-5, thinking: high, retries: 0, fallbacks: [second/gpt-5, third/plain]}}
providers:
  first: {{base_url: '{url}', format: anthropic, api_key_env: KEY}}
  second: {{base_url: '{url}', format: responses, api_key_env: KEY}}
  third: {{base_url: '{url}', api_key_env: KEY}}
"""
PATHS = {"a": "/v1/messages", "r": "/v1/responses", "c": "/v1/chat/completions"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("who", ["arca", "raac", "cara", "acra"])
async def test_a_turn_is_carried_on_by_whoever_can_answer(tmp_path: Path, who: str) -> None:
    """Each step of a turn is answered by the one named; the others are overloaded then."""
    messages, step = MessagesForm(), 0

    def answer(request: Recorded) -> Reply:
        nonlocal step
        if request.path != PATHS[who[step]]:
            return refuse(529, "Overloaded", kind="overloaded_error")
        step += 1
        return call("read_file", path=f"{step}.txt") if step < len(who) else say("Done.")

    forms = {"/v1/messages": messages, "/v1/responses": ResponsesForm()}
    async with bench(tmp_path, answer, forms=forms) as b:
        b.config(CONFIG.format(url=b.server.base_url))
        b.environ |= {"HERMES_MODEL": "", "OPENAI_BASE_URL": "", "KEY": "test-key"}
        ended = await b.turn("Read them all")
        assert (ended.outcome, ended.text, b.server.refusals) == ("done", "Done.", [])
        path = [event.model for event in b.seen(RequestStarted)]
        assert len(path) == sum({"a": 1, "r": 2, "c": 3}[each] for each in who)
        assert [event.declared for event in b.seen(PrefixBroken)].count(False) == 0
