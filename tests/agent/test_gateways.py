"""Gateways: limits they refuse, thoughts they want back, efforts they make of budgets, who answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.events import Noticed, UsageChanged
from agent.model.transport.failures import Failures
from tests.support.engines import Bench, bench
from tests.support.messages_form import MessagesForm
from tests.support.model_server import Reply, Rules, call, refuse, say

FORMS = {"/v1/messages": MessagesForm()}


def prepared(b: Bench, model: str, format_name: str = "chat", **settings: Any) -> None:
    more = "".join(f", {name}: {value}" for name, value in settings.items())
    b.config(
        f"model: {{name: near/{model}, retries: 0{more}}}\n"
        f"providers: {{near: {{base_url: '{b.server.base_url}', format: {format_name}, api_key_env: KEY}}}}"
    )
    b.environ |= {"HERMES_MODEL": "", "OPENAI_BASE_URL": "", "OPENAI_API_KEY": "", "KEY": "k"}


def refuse_above(window: int, asked: int, name: str = "max_completion_tokens") -> Reply:
    words = (
        f"{name}={asked} cannot be greater than max_model_len={window}. Please request fewer output "
        f"tokens. (parameter={name}, value={asked})"
    )
    error = {"type": "BadRequestError", "message": words}
    body = json.dumps({"type": "error", "error": error}).encode()
    return Reply(status=400, content_type="application/json", body=body)


@pytest.mark.thorough
@pytest.mark.parametrize(("window", "thinking"), [(30_100, "high"), (30_100, 40_000), (8_000, "high")])
async def test_an_output_limit_above_the_window_is_asked_for_again_below_it(
    tmp_path: Path, window: int, thinking: Any
) -> None:
    def script(request: Any) -> Reply:
        asked = request.body["max_tokens"]
        return refuse_above(window, asked) if asked > window else say("Hello.")

    async with bench(tmp_path, script, forms=FORMS) as b:
        prepared(b, "claude-near-4-5", "anthropic", thinking=thinking, max_output=60_000)
        first = await b.turn("hello")
        assert (first.outcome, first.text) == ("done", "Hello.")
        sent = b.server.requests[-1].body
        assert sent["max_tokens"] <= window
        assert sent["thinking"]["budget_tokens"] < sent["max_tokens"]
        assert b.seen(UsageChanged)[-1].context_window == window
        before = len(b.server.requests)
        await b.turn("again")
        assert len(b.server.requests) == before + 1


async def test_an_output_limit_is_no_overflow_in_the_chat_format_either(tmp_path: Path) -> None:
    def script(request: Any) -> Reply:
        asked = request.body.get("max_tokens", 0)
        return refuse_above(8_192, asked, "max_tokens") if asked > 8_192 else say("Hello.")

    async with bench(tmp_path, script) as b:
        prepared(b, "m", max_output=9_000)
        assert (await b.turn("hello")).text == "Hello."
        assert b.server.requests[-1].body["max_tokens"] == 8_192


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("word", "low", "high"), [("low", 1_024, 2_047), ("medium", 2_048, 4_095), ("high", 4_096, 99_999)]
)
async def test_budgets_of_other_makers_models_mean_three_efforts(
    tmp_path: Path, word: str, low: int, high: int
) -> None:
    async with bench(tmp_path, [say("Hi.")], forms=FORMS) as b:
        prepared(b, "glm-5", "anthropic", thinking=word)
        await b.turn("hello")
        assert low <= b.server.requests[0].body["thinking"]["budget_tokens"] <= high


@pytest.mark.thorough
async def test_thoughts_of_another_model_that_are_wanted_back_are_asked_for_no_more(tmp_path: Path) -> None:
    words = (
        "litellm.BadRequestError: AnthropicException - messages.1.content.0.type: Expected `thinking` or "
        "`redacted_thinking`, but found `text`. When `thinking` is enabled, a final `assistant` message "
        "must start with a thinking block."
    )

    def script(request: Any) -> Reply:
        body = request.body
        lacking = [
            each
            for each in body["messages"]
            if each["role"] == "assistant" and each.get("tool_calls") and not each.get("thinking_blocks")
        ]
        if "reasoning_effort" in body and lacking:
            return refuse(400, words)
        if any(each["role"] == "tool" for each in body["messages"]):
            return say("Done.")
        return call("terminal", command="true")

    async with bench(tmp_path, script, rules=Rules(message_fields=frozenset({"thinking_blocks"}))) as b:
        prepared(b, "team", thinking="low")
        ended = await b.turn("look")
        assert (ended.outcome, ended.text) == ("done", "Done.")
        assert "reasoning_effort" not in b.server.requests[-1].body
        assert any("reasoning_effort" in each.text for each in b.seen(Noticed))


async def test_an_effort_that_is_refused_is_left_out_and_told(tmp_path: Path) -> None:
    def script(request: Any) -> Reply:
        if "reasoning_effort" in request.body:
            return refuse(
                400, "litellm.UnsupportedParamsError: m does not support parameters: reasoning_effort"
            )
        return say("Hi.")

    async with bench(tmp_path, script) as b:
        prepared(b, "m", thinking="high")
        assert (await b.turn("hello")).text == "Hi."
        told = [each.text for each in b.seen(Noticed) if "reasoning_effort" in each.text]
        assert len(told) == 1


def answered_by(model: str) -> Any:
    def edit(events: list[Any]) -> list[Any]:
        for event in events:
            if isinstance(event, dict):
                event["model"] = model
        return events

    return edit


@pytest.mark.sample(1)
@pytest.mark.parametrize(("answered", "named"), [("spare", "near/spare"), ("team-2026-01-01", "near/team")])
async def test_the_model_that_answered_is_named_and_priced(tmp_path: Path, answered: str, named: str) -> None:
    usage = {"prompt_tokens": 20_000, "completion_tokens": 0, "total_tokens": 20_000}
    prices = {
        name: {"model_info": {"input_cost_per_token": cost, "output_cost_per_token": cost}}
        for name, cost in (("team", 1e-05), ("spare", 1e-06))
    }
    listed = [{"id": name, "max_input_tokens": 100_000} for name in prices]
    priced = [{"model_name": name, **each} for name, each in prices.items()]
    later = say("Hi.", usage=usage, edits=(answered_by("team"),))
    async with bench(tmp_path, [say("Hi.", usage=usage, edits=(answered_by(answered),)), later]) as b:
        b.server.documents = {"/v1/models": {"data": listed}, "/model/info": {"data": priced}}
        prepared(b, "team")
        async with b.engine() as engine:
            await engine.run("hello")
            node = engine.session.path[-1]
        assert node.data["model"] == named
        cost = 0.02 if named == "near/spare" else 0.2
        assert b.seen(UsageChanged)[0].session_cost == pytest.approx(cost)
        # A session that goes on with another model still knows it.
        await b.turn("again", resume_last=True)
        assert b.seen(UsageChanged)[-1].session_cost == pytest.approx(cost + 0.2)


@pytest.mark.sample(1)
@pytest.mark.parametrize("header", [{"x-litellm-response-cost": "0.25"}, {}])
async def test_the_cost_in_a_header_counts(tmp_path: Path, header: dict[str, str]) -> None:
    async with bench(tmp_path, [say("Hi.", headers=header)]) as b:
        prepared(b, "team")
        await b.turn("hello")
        assert b.seen(UsageChanged)[0].session_cost == (0.25 if header else None)


@pytest.mark.parametrize(
    ("status", "words", "ours"),
    [
        (401, "litellm.AuthenticationError: AnthropicException - invalid x-api-key", False),
        (404, "litellm.NotFoundError: OpenAIException - The model `x` does not exist", False),
        (401, "Authentication Error, LiteLLM Virtual Key expected.", True),
        (404, "The model `x` does not exist.", True),
        (400, "/chat/completions: Invalid model name passed in model=x. Call `/v1/models` to view", True),
        (400, "Unknown model: x", True),
    ],
)
def test_trouble_of_the_gateway_itself_is_not_told_as_the_persons(
    status: int, words: str, ours: bool
) -> None:
    failures = Failures(
        provider="near", base_url="http://g/v1", key_hint="NEAR_KEY", api_key="abcd", stall_timeout=9
    )
    body = json.dumps({"error": {"message": words}}).encode()
    told = str(failures.refusal_error(status, {}, body))
    assert ("the operator of the gateway" in told) is not ours
    assert ("NEAR_KEY" in told or "choose one it offers" in told) is ours


@pytest.mark.parametrize(
    ("key", "provider", "named"), [("", "near", True), ("abcd", "near", False), ("", "custom", False)]
)
def test_a_gateway_that_breaks_down_without_a_key_is_told_with_its_variable(
    key: str, provider: str, named: bool
) -> None:
    failures = Failures(
        provider=provider, base_url="http://g/v1", key_hint="NEAR_KEY", api_key=key, stall_timeout=9
    )
    told = str(failures.refusal_error(500, {}, b"Internal Server Error"))
    assert ("no key was sent, as NEAR_KEY is not set" in told) is named and "try again later" in told
