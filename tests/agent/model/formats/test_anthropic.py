"""The Messages API, against a server that refuses what the real one refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.messages import Sealed, SealedPart
from agent.core.store.export import line, mask_node, node_record
from agent.core.store.nodes import Node
from agent.core.store.store import Store
from agent.events import Noticed, PrefixBroken, ReasoningAdded
from agent.knowledge.context.message_history import conversation
from tests.support.engines import Bench, bench
from tests.support.messages_form import MessagesForm
from tests.support.model_server import call, calls, refuse, say

CONFIG = """
model: {{name: work/{model}, thinking: {thinking}, retries: 2}}
providers:
  work:
    base_url: {url}
    format: anthropic
    api_key_env: WORK_KEY
    models: {{{model}: {{context_window: 200000, max_output: 64000}}}}
"""


def prepared(b: Bench, model: str = "claude-sonnet-4-5", thinking: Any = "high") -> None:
    b.config(CONFIG.format(model=model, thinking=thinking, url=b.server.base_url))
    b.environ |= {"HERMES_MODEL": "", "OPENAI_BASE_URL": "", "WORK_KEY": "test-key"}


def blocks(body: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for message in body["messages"] for block in message["content"] if block["type"] == kind]


LOOP = [
    calls(
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "b.txt"}),
        text="Both.",
        reasoning="Two files ü🎉",
    ),
    call("read_file", path="a.txt"),
    say("Done."),
    say("Again."),
]


@pytest.mark.thorough
@pytest.mark.parametrize("redacts", [False, True])
async def test_a_turn_with_thoughts_and_calls_side_by_side(tmp_path: Path, redacts: bool) -> None:
    form = MessagesForm(redacts=redacts)
    async with bench(tmp_path, LOOP, forms={"/v1/messages": form}, api_key="test-key") as b:
        prepared(b)
        for name in "ab":
            (b.workspace / f"{name}.txt").write_text(f"file {name}\n")
        async with b.engine() as engine:
            first, second = await engine.run("Read both"), await engine.run("And again")
        assert b.server.refusals == []
        assert (first.text, second.text) == ("Done.", "Again.")
        bodies = [request.body for request in b.server.requests]
        assert [len(blocks(body, "redacted_thinking" if redacts else "thinking")) for body in bodies] == [
            0,
            1,
            2,
            3,
        ]
        assert all(body["thinking"]["budget_tokens"] < body["max_tokens"] for body in bodies)
        assert [message["role"] for message in bodies[3]["messages"]] == ["user", "assistant"] * 3 + ["user"]
        assert (form.prefixes, form.hits) == (3, 3)
        assert not b.seen(PrefixBroken)
        shown = "".join(event.text for event in b.seen(ReasoningAdded))
        assert ("Two files ü🎉" in shown) is not redacts
        usage = second.usage
        assert 0 < (usage["cached"] or 0) < (usage["input"] or 0)


@pytest.mark.thorough
async def test_a_session_that_goes_on_in_another_process_sends_the_same_thoughts(tmp_path: Path) -> None:
    form = MessagesForm()
    async with bench(tmp_path, LOOP, forms={"/v1/messages": form}) as b:
        prepared(b)
        for name in "ab":
            (b.workspace / f"{name}.txt").write_text(f"file {name}\n")
        ended = await b.turn("Read both")
        await b.turn("And again", resume=ended.session)
        assert b.server.refusals == []
        before, after = b.server.requests[2].body, b.server.requests[3].body
        assert blocks(after, "thinking")[:2] == blocks(before, "thinking")
        assert (form.prefixes, form.hits) == (3, 3)


def overloaded(status: int, kind: str) -> Any:
    """An error as the Messages API words it."""
    return refuse(status, "Busy.", kind=kind)


def broken_off(kind: str) -> Any:
    """A stream that ends with an error of this kind."""
    error = {"type": "error", "error": {"type": kind, "message": "Overloaded"}}
    return say("Half of an", edits=(lambda events: [*events[:4], error],))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "trouble",
    [
        overloaded(529, "overloaded_error"),
        overloaded(429, "rate_limit_error"),
        overloaded(500, "api_error"),
        broken_off("overloaded_error"),
        say("Half of an answer", cut_at=-60),
    ],
)
async def test_what_may_pass_is_tried_again(tmp_path: Path, trouble: Any) -> None:
    async with bench(tmp_path, [trouble, say("Whole.")], forms={"/v1/messages": MessagesForm()}) as b:
        prepared(b)
        ended = await b.turn("Hi")
        assert (ended.outcome, ended.text, b.server.refusals) == ("done", "Whole.", [])


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, "authentication_error", "put a valid key into WORK_KEY"),
        (403, "permission_error", "check what the account and the key"),
        (404, "not_found_error", "does not offer the model as it was asked for"),
        (400, "billing_error", "refused the request"),
    ],
)
async def test_what_stays_is_told_with_its_mend(tmp_path: Path, status: int, kind: str, words: str) -> None:
    async with bench(tmp_path, [overloaded(status, kind)], forms={"/v1/messages": MessagesForm()}) as b:
        prepared(b)
        ended = await b.turn("Hi")
        assert ended.outcome == "failed" and words in ended.error


@pytest.mark.thorough
async def test_a_refusal_ends_the_turn_with_its_reason(tmp_path: Path) -> None:
    script = [say("", finish="content_filter"), say("I can say", finish="content_filter"), say("Fine.")]
    async with bench(tmp_path, script, forms={"/v1/messages": MessagesForm()}) as b:
        prepared(b)
        async with b.engine() as engine:
            first, second, third = [await engine.run(text) for text in ("One", "Two", "Three")]
        assert first.outcome == "failed" and "refuses to answer this" in first.error
        assert (second.outcome, second.text, third.text) == ("done", "I can say", "Fine.")
        assert any("objects to the content" in event.text for event in b.seen(Noticed))
        assert b.server.refusals == []


async def test_a_paused_answer_goes_on_where_it_stopped(tmp_path: Path) -> None:
    script = [say("Searching. ", finish="pause"), say("", finish="pause"), say("Found.")]
    async with bench(tmp_path, script, forms={"/v1/messages": MessagesForm()}) as b:
        prepared(b)
        ended = await b.turn("Look it up")
        assert (ended.outcome, ended.text, b.server.refusals) == ("done", "Searching. Found.", [])
        last = b.server.requests[-1].body["messages"]
        assert [message["role"] for message in last] == ["user", "assistant"]
        assert len(blocks(b.server.requests[-1].body, "server_tool_use")) == 2


async def test_a_plain_answer_without_a_stream_is_read(tmp_path: Path) -> None:
    script = [
        calls(("read_file", {"path": "a.txt"}), reasoning="Hm.", stream=False),
        say("Read.", stream=False),
    ]
    async with bench(tmp_path, script, forms={"/v1/messages": MessagesForm()}) as b:
        prepared(b)
        ended = await b.turn("Read")
        assert (ended.text, b.server.refusals) == ("Read.", [])


async def test_what_a_model_does_not_take_is_learned_and_costs_one_refusal(tmp_path: Path) -> None:
    form = MessagesForm(adaptive=frozenset({"claude-house"}))
    async with bench(tmp_path, [say("One."), say("Two.")], forms={"/v1/messages": form}) as b:
        prepared(b, "claude-house")
        async with b.engine() as engine:
            assert [(await engine.run("Hi")).text for _ in range(2)] == ["One.", "Two."]
        assert len(b.server.refusals) == 1 and "`enabled` is not supported" in b.server.refusals[0]


@pytest.mark.thorough
async def test_sealed_thoughts_travel_whole_through_the_store_and_an_export(tmp_path: Path) -> None:
    form = MessagesForm()
    async with bench(tmp_path, LOOP, forms={"/v1/messages": form}) as b:
        prepared(b)
        ended = await b.turn("Read both")
        sent = blocks(b.server.requests[2].body, "thinking")
        async with await Store.open(b.home / "state.db") as store:
            nodes = await store.path(ended.session)
            lines = [line(node_record(mask_node(node, {"KEY": "k" * 20}))) for node in nodes]
            again = [Node(**{k: v for k, v in json.loads(each).items() if k != "heads"}) for each in lines]
            assert again == list(nodes)
            told = [mask_node(node, {"WORD": "Two files ü🎉"}) for node in nodes]
        kept = [part for turned in conversation(again) for part in parts_of(turned.message.sealed)]
        assert [json.loads(part.data) for part in kept][:2] == sent
        assert len([node for node in told if "sealed" in node.data]) == len(kept) - 1


def parts_of(sealed: Sealed | None) -> tuple[SealedPart, ...]:
    return sealed.parts if sealed is not None else ()
