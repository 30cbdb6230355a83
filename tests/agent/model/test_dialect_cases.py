"""Sessions with models that are strict about the form of a request: none of them ends a session."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.core.messages import Message, ToolCall
from agent.events import Noticed, PrefixBroken, UsageChanged
from agent.integrations.server_events import DialectLearned
from agent.model.dialect import ANY, Dialect
from agent.model.dialect_book import DialectBook, SpokenDialect, learned_of
from agent.model.format_registry import FORMATS
from agent.model.protocol import ModelRequest
from agent.model.repairs import Repair
from tests.support.delivery import Recorded
from tests.support.engines import Bench, bench
from tests.support.model_server import Reply, Rules, calls, refuse, say

Check = Callable[[list[dict[str, Any]]], str]
FREE = Rules(message_fields=frozenset({"reasoning_content"}))


def by_turns(messages: list[dict[str, Any]]) -> str:
    """The rules of Mistral's template."""
    roles = [message["role"] for message in messages]
    if ("tool", "user") in pairwise(roles):
        return "Unexpected role 'user' after role 'tool'"
    turn = 0
    for message in messages[1:]:
        if message["role"] == "user" or (message["role"] == "assistant" and not message.get("tool_calls")):
            if (message["role"] == "user") != (turn % 2 == 0):
                return (
                    "After the optional system message, conversation roles must alternate user and assistant "
                    "roles except for tool calls and results."
                )
            turn += 1
    return ""


def nine(messages: list[dict[str, Any]]) -> str:
    for message in messages:
        for each in message.get("tool_calls") or []:
            if not re.fullmatch(r"[A-Za-z0-9]{9}", each["id"]):
                return f"Tool call id was {each['id']} but must be a-z, A-Z, 0-9, with a length of 9."
    return ""


def thoughts_back(messages: list[dict[str, Any]]) -> str:
    for message in messages:
        if message.get("tool_calls") and "reasoning_content" not in message:
            return "The `reasoning_content` in the thinking mode must be passed back to the API."
    return ""


def some_text(messages: list[dict[str, Any]]) -> str:
    bare = any(not message.get("content") for message in messages)
    return "messages: text content must be non-empty" if bare else ""


def strict(script: Callable[[Recorded], Reply], *checks: Check, status: int = 400) -> Callable[[Any], Reply]:
    """A server that refuses what a check objects to."""

    def answer(request: Recorded) -> Reply:
        for check in checks:
            if said := check(request.body["messages"]):
                return refuse(status, said)
        return script(request)

    return answer


def acting(request: Recorded) -> Reply:
    """One call in each turn, thought about, then an answer."""
    if request.body["messages"][-1]["role"] == "tool":
        return say("done")
    return calls(("terminal", {"command": "echo hi"}), reasoning="hm")


async def goes_on(b: Bench, turns: int = 3) -> None:
    ended = await b.turn("first")
    assert (ended.outcome, ended.error) == ("done", "")
    for text in ("second", "third", "fourth")[: turns - 1]:
        ended = await b.turn(text, resume_last=True)
        assert (ended.outcome, ended.error) == ("done", "")
    assert all(event.declared for event in b.seen(PrefixBroken))


@pytest.mark.thorough
@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize(
    "checks",
    [(by_turns,), (nine,), (thoughts_back,), (some_text,), (by_turns, nine, thoughts_back, some_text)],
)
async def test_a_strict_model_is_spoken_to_as_it_wants(
    tmp_path: Path, checks: tuple[Check, ...], status: int
) -> None:
    async with bench(tmp_path, strict(acting, *checks, status=status), rules=FREE) as b:
        await goes_on(b)
        refused = len(b.server.requests) - 6
        assert refused <= len(checks)
        # What was learned counts in every later session.
        learned = len(b.seen(DialectLearned))
        await b.turn("again")
        assert len(b.seen(DialectLearned)) == learned
        assert len(b.seen(Noticed)) >= learned


async def test_thoughts_go_back_word_for_word(tmp_path: Path) -> None:
    async with bench(tmp_path, strict(acting, thoughts_back), rules=FREE) as b:
        await goes_on(b, 1)
        sent = b.server.requests[-1].body["messages"]
        assert [each["reasoning_content"] for each in sent if each.get("tool_calls")] == ["hm"]


@pytest.mark.thorough
async def test_what_a_dialect_says_beforehand_needs_no_refusal(tmp_path: Path) -> None:
    script = strict(acting, thoughts_back)
    async with bench(tmp_path, script, rules=FREE) as b:
        b.config(
            f"model: {{name: deepseek/m}}\nproviders: {{deepseek: {{base_url: '{b.server.base_url}'}}}}\n"
        )
        b.environ = {"HERMES_MODEL": "", "OPENAI_BASE_URL": ""}
        await goes_on(b, 2)
        assert len(b.server.requests) == 4
        assert b.seen(DialectLearned) == [] and b.seen(PrefixBroken) == []


@pytest.mark.thorough
async def test_a_refusal_that_stays_fails_the_turn_and_the_next_message_works(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda _: refuse(400, "reasoning_content role content call id: no")) as b:
        ended = await b.turn("first")
        assert (ended.outcome, ended.exit_code) == ("failed", 3)
        assert 1 <= len(b.server.requests) <= 6
        b.server.script = lambda _: say("well")
        ended = await b.turn("second", resume_last=True)
        assert (ended.outcome, ended.text) == ("done", "well")
        assert b.seen(DialectLearned) == []


@pytest.mark.parametrize(
    ("thought", "words"), [("", "answered nothing"), ("Hm.", "thought and then gave no")]
)
async def test_three_answers_without_text_are_a_failure(tmp_path: Path, thought: str, words: str) -> None:
    async with bench(tmp_path, lambda _: say("", reasoning=thought)) as b:
        ended = await b.turn("say hi")
        assert (ended.outcome, ended.exit_code, len(b.server.requests)) == ("failed", 1, 3)
        assert words in ended.error


@pytest.mark.thorough
async def test_a_model_without_tools_calls_in_its_text(tmp_path: Path) -> None:
    said = "No endpoints found that support tool use."

    def answer(request: Recorded) -> Reply:
        return refuse(404, said) if request.body.get("tools") else say("as text")

    async with bench(tmp_path, answer) as b:
        assert (await b.turn("hi")).text == "as text"
        assert (await b.turn("again")).text == "as text"
        assert ["tools" in request.body for request in b.server.requests] == [True, False, False]


SMALL = "The number of tokens to keep from the initial prompt is greater than the context length ({}"


@pytest.mark.thorough
@pytest.mark.parametrize("said", [SMALL.format("n_keep: 9000>= n_ctx: 4096)"), SMALL.format("…)")])
async def test_a_small_window_is_given_the_compact_set(tmp_path: Path, said: str) -> None:
    def answer(request: Recorded) -> Reply:
        return refuse(400, said) if len(request.raw) > 3 * 4_096 else acting(request)

    async with bench(tmp_path, answer) as b:
        ended = await b.turn("hi")
        assert (ended.outcome, ended.text) == ("done", "done")
        sent = b.server.requests[-1].body
        assert len(sent["tools"]) < 10 and sent["max_tokens"] == 1_500
        assert all(event.declared for event in b.seen(PrefixBroken))
        assert sum("window of" in event.text and "is small" in event.text for event in b.seen(Noticed)) == 1
        # What it named counts from the first request on.
        before = len(b.server.requests)
        assert (await b.turn("again", resume_last=True)).outcome == "done"
        assert (await b.turn("another session")).outcome == "done"
        assert len(b.server.requests) == before + 4


@pytest.mark.parametrize("name", ["chat", "anthropic", "responses"])
def test_no_text_stands_beside_calls_for_a_model_that_refuses_it(name: str) -> None:
    called = Message("assistant", "Let me look.", (ToolCall("call_1", "find", "{}"),))
    said = Message("assistant", "Found it.")

    def frames_for(dialect: Dialect) -> str:
        framer = FORMATS.get(name).framer("p/m", b"", dialect)
        return "".join(frame.data.decode() for each in (called, said) for frame in framer.frames(each))

    usual, bare = frames_for(ANY), frames_for(ANY.apply_change({"calls": {"text": False}}))
    assert "Let me look." in usual and "Let me look." not in bare
    assert all("find" in each and "Found it." in each for each in (usual, bare))


def test_calls_of_the_responses_format_go_back_one_by_one_where_several_are_refused() -> None:
    form, alone = FORMATS.get("responses"), ANY.apply_change({"roles": {"single_calls": True}})
    framer = form.framer("p/m", b"", alone)
    said = [
        Message("user", "go"),
        Message("assistant", "Both.", (ToolCall("call_1", "find", "{}"), ToolCall("call_2", "find", "{}"))),
        Message("tool", "one", call_id="call_1"),
        Message("tool", "two", call_id="call_2"),
        Message("user", "and then"),
    ]
    frames = tuple(frame for each in said for frame in framer.frames(each))
    items = json.loads(form.body(ModelRequest(model="m", frames=frames), alone))["input"]
    assert [item.get("output", item["type"]) for item in items] == [
        "message", "message", "function_call", "one", "function_call", "two", "message",
    ]  # fmt: skip


def narrow(b: Bench, model: str = "scripted") -> SpokenDialect:
    """A session that was refused for a window of 8,192 tokens."""
    spoken = DialectBook(b.home).of("custom", b.server.base_url, model)
    spoken.learn([(Repair("compact", {"limits": {"window": 8_192}}), "maximum is 8192 tokens")])
    return spoken


def kept_windows(b: Bench) -> list[int]:
    return [row["change"]["limits"]["window"] for _, _, row in learned_of(b.home, "custom")]


@pytest.mark.thorough
async def test_a_window_that_turns_out_larger_is_forgotten(tmp_path: Path) -> None:
    """By a count beyond it, by a refusal that names a larger one, by the server itself, and after a day."""
    replies = [say("well", usage={"prompt_tokens": 20_000, "completion_tokens": 1})]
    async with bench(tmp_path, lambda request: replies.pop(0)) as b:
        narrow(b)
        assert (await b.turn("hi")).outcome == "done" and kept_windows(b) == []
        assert any("counts no longer" in event.text for event in b.seen(Noticed))
        narrow(b)
        replies += [refuse(400, "prompt is too long: 33000 tokens > 32768 maximum"), say("well")]
        await b.turn("hi")
        assert kept_windows(b) == [32_768]
        b.server.documents = {"/v1/models": {"data": [{"id": "scripted", "max_model_len": 65_536}]}}
        replies += [say("well")]
        assert (await b.turn("hi")).outcome == "done" and kept_windows(b) == []
        narrow(b)
        assert DialectBook(b.home).of("custom", b.server.base_url, "scripted").current.limits.window == 8_192
        kept = b.home / "dialects" / "learned.json"
        kept.write_text(re.sub(r'"at": \d+', '"at": 1', kept.read_text()))
        assert DialectBook(b.home).of("custom", b.server.base_url, "scripted").current.limits.window == 0


@pytest.mark.thorough
async def test_a_long_message_leaves_a_large_model_its_tools(tmp_path: Path) -> None:
    def answer(request: Recorded) -> Reply:
        return refuse(400, "prompt is too long: 250000 tokens > 200000 maximum")

    async with bench(tmp_path, answer) as b:
        assert (await b.turn("word " * 40_000)).outcome == "failed"
        assert "terminal" in {tool["function"]["name"] for tool in b.server.requests[-1].body["tools"]}
        assert len(b.server.requests[-1].body["tools"]) > 10


@pytest.mark.parametrize("chosen", [4_000, 100_000])
async def test_a_learned_window_below_that_of_the_settings_counts_and_is_told(
    tmp_path: Path, chosen: int
) -> None:
    async with bench(tmp_path, lambda _: say("well")) as b:
        narrow(b)
        b.config(
            f"providers: {{custom: {{base_url: '{b.server.base_url}', "
            f"models: {{scripted: {{context_window: {chosen}}}}}}}}}\n"
        )
        b.environ = {"HERMES_MODEL": "custom/scripted"}
        assert (await b.turn("hi")).outcome == "done"
        told = [
            event.text for event in b.seen(Noticed) if "in place of the 100,000 of the settings" in event.text
        ]
        assert len(told) == (chosen > 8_192)
        assert b.seen(UsageChanged)[-1].context_window == min(chosen, 8_192)
