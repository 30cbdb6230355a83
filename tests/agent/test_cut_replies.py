"""A reply that reached the output limit was cut, whatever its server calls it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import Bench, bench
from tests.support.messages_form import MessagesForm
from tests.support.model_server import call, say
from tests.support.replies import Reply
from tests.support.responses_form import ResponsesForm

LIMIT = 64
FORMS = {"/v1/messages": MessagesForm(), "/v1/responses": ResponsesForm()}
FORMATS = ("chat", "anthropic", "responses")


def counted(output: int, events: list[Any]) -> list[Any]:
    """The events with `output` tokens in every count."""
    for event in events:
        for place in (event, event.get("message") or {}, event.get("response") or {}):
            if place.get("usage"):
                place["usage"] = place["usage"] | {"output_tokens": output}
    return events


def reply(text: str, output: int, format_name: str, **more: Any) -> Reply:
    if format_name == "chat":
        usage = {"prompt_tokens": 5_000, "completion_tokens": output, "total_tokens": 5_000 + output}
        return say(text, usage=usage, **more)
    return say(text, edits=(lambda events: counted(output, events),), **more)


def prepared(b: Bench, format_name: str) -> None:
    b.config(
        f"model: {{name: work/m, max_output: {LIMIT}}}\n"
        f"providers: {{work: {{base_url: '{b.server.base_url}', format: {format_name}, api_key_env: KEY}}}}"
    )
    b.environ |= {"HERMES_MODEL": "", "OPENAI_BASE_URL": "", "KEY": "k"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_reply_as_long_as_the_limit_goes_on_though_it_is_called_complete(
    tmp_path: Path, format_name: str
) -> None:
    script = [reply("One, ", LIMIT, format_name), reply("two.", LIMIT - 1, format_name)]
    async with bench(tmp_path, script, forms=FORMS) as b:
        prepared(b, format_name)
        ended = await b.turn("Count")
        assert (ended.outcome, ended.text, len(b.server.requests)) == ("done", "One, two.", 2)


@pytest.mark.thorough
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("told", ["stop", "length"])
async def test_an_answer_that_is_cut_again_and_again_is_never_told_as_done(
    tmp_path: Path, format_name: str, told: str
) -> None:
    script = [reply(f"part {number} ", LIMIT, format_name, finish=told) for number in range(9)]
    async with bench(tmp_path, script, forms=FORMS) as b:
        prepared(b, format_name)
        ended = await b.turn("Write a book")
        assert (ended.outcome, ended.exit_code) == ("failed", 1)
        assert ended.text == "part 0 part 1 part 2 part 3 "
        assert "cut at the output limit 4 times" in ended.error
        assert "model.max_output" in ended.error
        b.server.script = [reply("Short.", 3, format_name)] * 9
        assert (await b.turn("Then a word", resume_last=True)).text == "Short."


async def test_thoughts_that_use_up_the_limit_are_no_answer(tmp_path: Path) -> None:
    script = [reply("", LIMIT, "chat", reasoning="Hm, " * 20) for _ in range(9)]
    async with bench(tmp_path, script) as b:
        prepared(b, "chat")
        ended = await b.turn("Think")
        assert (ended.outcome, ended.exit_code) == ("failed", 1)


async def test_a_call_that_is_whole_is_carried_out_at_the_limit_too(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 5_000, "completion_tokens": LIMIT, "total_tokens": 5_000 + LIMIT}
    first = call("terminal", command="echo here > made.txt")
    whole = Reply(calls=first.calls, usage=usage)
    async with bench(tmp_path, [whole, reply("Made.", 3, "chat")]) as b:
        prepared(b, "chat")
        assert (await b.turn("Make it")).outcome == "done"
        assert (b.workspace / "made.txt").read_text() == "here\n"


async def test_without_a_limit_nothing_is_taken_for_cut(tmp_path: Path) -> None:
    async with bench(tmp_path, [reply("All of it.", 100_000, "chat")]) as b:
        assert (await b.turn("Hi")).text == "All of it."
        assert len(b.server.requests) == 1
