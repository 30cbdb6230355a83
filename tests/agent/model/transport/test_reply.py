"""One reply, whatever it takes: attempts, back-off, fallback models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from agent.core.event_data import Usage
from agent.core.messages import Message, ToolCall
from agent.errors import ModelError
from agent.model.codecs.codec import DecodedReply
from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import (
    CallFragment,
    Delta,
    ModelRequest,
    ReasoningDelta,
    ReplyEnd,
    TextDelta,
    ToolMode,
    ToolSpec,
    UsageDelta,
)
from agent.model.transport.client import FormatClient
from agent.model.transport.reply import ModelReply, ModelRoute, fetch_reply
from agent.model.transport.waits import RetryPolicy
from agent.model.wire_format import Wire
from tests.support.chat import ASK, RICH
from tests.support.faults import FAULTS
from tests.support.model_server import ModelServer, call, say
from tests.support.replies import Reply as Scripted

TRANSIENT = ("unreachable", "timeout", "cut", "rate_limit", "overloaded", "bad_reply")


class PlainDecoder:
    """Shows everything but text in brackets, which it holds back to the end."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.held: list[Delta] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, list[str]] = {}

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, TextDelta):
            self.text.append(delta.text)
            if delta.text == "explode":
                raise KeyError(delta.text)
            if delta.text.startswith("["):
                self.held.append(delta)
                return []
        elif isinstance(delta, ReasoningDelta):
            self.reasoning.append(delta.text)
        elif isinstance(delta, CallFragment):
            parts = self.calls.setdefault(delta.index, ["", "", ""])
            for place, piece in enumerate((delta.id, delta.name, delta.arguments)):
                parts[place] += piece
        return [delta]

    def finish(self) -> tuple[list[Delta], DecodedReply]:
        calls = tuple(ToolCall(*parts) for parts in self.calls.values())
        broken = {made.id: "broken" for made in calls if not made.arguments.endswith("}")}
        return self.held, DecodedReply(
            "".join(self.text), "".join(self.reasoning), calls, ("a repair",) if broken else (), broken
        )


class PlainCodec:
    mode: ToolMode = "native"

    def system(self, prompt: str, tools: Sequence[ToolSpec]) -> str:
        return prompt

    def rewritten(self, message: Message) -> Message:
        return message

    def offered(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        return ()

    def reply_schema(self, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
        return None

    def decoder(self, tools: Sequence[ToolSpec]) -> PlainDecoder:
        return PlainDecoder()


class FakeClient:
    """Plays one list of deltas per request; an exception in it is raised."""

    def __init__(self, *attempts: Sequence[Delta | BaseException]) -> None:
        self.attempts = list(attempts)
        self.requests: list[ModelRequest] = []
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        self.requests.append(request)
        try:
            for item in self.attempts.pop(0):
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self.closed += 1

    async def aclose(self) -> None:
        return


@dataclass
class Log:
    """Everything a listener hears, in order."""

    heard: list[tuple[Any, ...]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    def start(self, route: ModelRoute, attempt: int) -> None:
        self.heard.append(("started", route.name, attempt))

    def show(self, delta: Delta) -> None:
        self.heard.append(("shown", delta))

    def discard(self, reason: str) -> None:
        self.heard.append(("cut", reason))

    def retry(self, reason: str, delay: float, attempt: int, route: ModelRoute) -> None:
        self.heard.append(("retry", reason, round(delay, 3), attempt, route.name))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def words(self) -> list[str]:
        return [entry[0] for entry in self.heard]


def route(client: Any, name: str = "main") -> ModelRoute:
    return ModelRoute(name=name, model=name, client=client, wire=Wire(CHAT, PlainCodec()))


async def fetch(log: Log, *routes: ModelRoute, retries: int = 2) -> ModelReply:
    return await fetch_reply(
        routes, lambda _: ASK, log, RetryPolicy(retries=retries), sleep=log.sleep, chance=Random(1)
    )


def error(kind: Any, message: str = "It failed.", **more: Any) -> ModelError:
    return ModelError(kind, message, **more)


GOOD: tuple[Delta, ...] = (
    ReasoningDelta("hm"),
    TextDelta("[held]"),
    TextDelta("hello"),
    CallFragment(0, "c1", "ls", "{}"),
    UsageDelta(Usage(input=5)),
    UsageDelta(Usage(output=7, cached=2)),
    ReplyEnd("tool_calls"),
)


async def test_a_reply_is_what_the_decoder_made_of_it():
    log = Log()
    reply = await fetch(log, route(FakeClient(GOOD)))
    assert reply == ModelReply(
        text="[held]hello",
        reasoning="hm",
        calls=(ToolCall("c1", "ls", "{}"),),
        finish="tool_calls",
        usage=Usage(5, 7, 2, None),
        route="main",
    )
    assert log.heard == [
        ("started", "main", 1),
        ("shown", ReasoningDelta("hm")),
        ("shown", TextDelta("hello")),
        ("shown", CallFragment(0, "c1", "ls", "{}")),
        ("shown", TextDelta("[held]")),
    ]


async def test_repairs_and_broken_calls_are_passed_on():
    reply = await fetch(Log(), route(FakeClient((CallFragment(0, "c", "ls", '{"a'), ReplyEnd("length")))))
    assert (reply.repairs, reply.broken, reply.finish) == (("a repair",), {"c": "broken"}, "length")


async def test_nothing_of_a_cut_attempt_gets_into_the_reply():
    client = FakeClient((TextDelta("lost "), CallFragment(0, "x", "rm", "{"), error("cut")), GOOD)
    log = Log()
    reply = await fetch(log, route(client))
    assert (reply.text, [made.name for made in reply.calls]) == ("[held]hello", ["ls"])
    assert log.heard[:5] == [
        ("started", "main", 1),
        ("shown", TextDelta("lost ")),
        ("shown", CallFragment(0, "x", "rm", "{")),
        ("cut", "It failed."),
        ("retry", "It failed.", round(log.slept[0], 3), 2, "main"),
    ]
    assert log.heard[5] == ("started", "main", 2)
    assert client.closed == 2


async def test_a_failure_before_anything_was_shown_is_no_cut():
    log = Log()
    await fetch(
        log, route(FakeClient((UsageDelta(Usage(input=1)), TextDelta("[x"), error("overloaded")), GOOD))
    )
    assert "cut" not in log.words()


async def test_a_stream_that_just_stops_was_cut():
    log = Log()
    reply = await fetch(log, route(FakeClient((TextDelta("half"),), GOOD)))
    assert reply.text == "[held]hello"
    assert "cut" in log.words()


async def test_what_happens_after_the_end_does_not_matter():
    client = FakeClient((*GOOD, error("cut")))
    assert (await fetch(Log(), route(client))).text == "[held]hello"
    assert client.closed == 1


@pytest.mark.parametrize("kind", TRANSIENT)
async def test_failures_that_may_pass_are_tried_again_with_growing_delays(kind):
    log = Log()
    await fetch(log, route(FakeClient([error(kind)], [error(kind)], GOOD)))
    assert log.words().count("started") == 3
    assert log.slept[0] < log.slept[1]


@pytest.mark.parametrize("kind", ["auth", "billing", "not_found", "bad_request", "content_filter"])
async def test_other_failures_are_final_at_once(kind):
    log = Log()
    with pytest.raises(ModelError) as caught:
        await fetch(log, route(FakeClient([error(kind)])))
    assert caught.value.kind == kind
    assert log.heard == [("started", "main", 1)]
    assert log.slept == []


async def test_the_wish_of_the_provider_is_waited_for():
    log = Log()
    await fetch(log, route(FakeClient([error("rate_limit", retry_after=40)], GOOD)))
    assert log.slept == [40]


async def test_the_next_route_has_its_turn_when_retries_are_used_up():
    failing, other = FakeClient(*[[error("overloaded")]] * 3), FakeClient(GOOD)
    log = Log()
    reply = await fetch(log, route(failing), route(other, "spare"))
    assert reply.route == "spare"
    assert [entry for entry in log.heard if entry[0] == "started"] == [
        ("started", "main", 1),
        ("started", "main", 2),
        ("started", "main", 3),
        ("started", "spare", 1),
    ]
    assert ("retry", "It failed.", 0.0, 1, "spare") in log.heard
    assert len(log.slept) == 2


async def test_a_final_failure_goes_straight_to_the_next_route():
    log = Log()
    reply = await fetch(log, route(FakeClient([error("auth")])), route(FakeClient(GOOD), "spare"))
    assert (reply.route, log.slept) == ("spare", [])


async def test_the_first_route_is_blamed_when_all_fail():
    routes = [
        route(FakeClient([error("auth", "first")])),
        route(FakeClient([error("billing", "second")]), "spare"),
    ]
    with pytest.raises(ModelError, match="first"):
        await fetch(Log(), *routes)


async def test_an_overflow_goes_to_the_caller_at_once_from_any_route():
    with pytest.raises(ModelError) as caught:
        await fetch(Log(), route(FakeClient([error("overflow")])), route(FakeClient(GOOD), "spare"))
    assert caught.value.kind == "overflow"
    with pytest.raises(ModelError) as caught:
        await fetch(
            Log(), route(FakeClient([error("auth")])), route(FakeClient([error("overflow")]), "spare")
        )
    assert caught.value.kind == "overflow"


async def test_a_request_is_built_anew_for_each_attempt_and_route():
    built: list[str] = []

    def build(on: ModelRoute) -> ModelRequest:
        built.append(on.name)
        return ASK

    log = Log()
    routes = [route(FakeClient([error("cut")], [error("auth")])), route(FakeClient(GOOD), "spare")]
    await fetch_reply(routes, build, log, RetryPolicy(retries=3), sleep=log.sleep)
    assert built == ["main", "main", "spare"]


async def test_a_reply_the_decoder_fails_on_counts_as_a_bad_one():
    log = Log()
    reply = await fetch(log, route(FakeClient((TextDelta("explode"), ReplyEnd("stop")), GOOD)))
    assert reply.text == "[held]hello"
    with pytest.raises(ModelError) as caught:
        await fetch(Log(), route(FakeClient(*[(TextDelta("explode"), ReplyEnd("stop"))] * 3)))
    assert caught.value.kind == "bad_reply"


async def test_no_routes_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="route"):
        await fetch(Log())


class NeverEnding:
    """A client that sends one word and then nothing."""

    def __init__(self) -> None:
        self.closed = False

    async def stream(self, _request: ModelRequest) -> AsyncIterator[Delta]:
        try:
            yield TextDelta("hello")
            await asyncio.Event().wait()
        finally:
            self.closed = True

    async def aclose(self) -> None:
        return


async def test_cancelling_closes_the_stream_and_passes_through():
    client, log = NeverEnding(), Log()
    task = asyncio.create_task(fetch(log, route(client), route(FakeClient(GOOD), "spare")))
    while len(log.heard) < 2:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert client.closed
    assert log.words() == ["started", "shown"]


async def test_cancelling_during_a_delay_passes_through():
    log = Log()
    policy = RetryPolicy(retries=5, base=1000, cap=1000)
    task = asyncio.create_task(fetch_reply([route(FakeClient([error("cut")]))], lambda _: ASK, log, policy))
    while "retry" not in log.words():
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# Through the real client


@asynccontextmanager
async def served(*script: Scripted, stall: float = 30):
    async with ModelServer(script) as server:
        client = FormatClient(CHAT, server.base_url, None, stall_timeout=stall)
        try:
            yield server, route(client)
        finally:
            await client.aclose()


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", FAULTS)
async def test_a_reply_comes_whole_after_any_fault_that_may_pass(name):
    fault = FAULTS[name]
    stall = 1.0 if fault.effect == "timeout" else 30
    async with served(fault(RICH), RICH, stall=stall) as (server, main), served(RICH) as (_, spare):
        log = Log()
        try:
            reply = await fetch(log, main, spare)
        except ModelError as failure:
            assert failure.kind == fault.effect == "overflow"
            return
    assert server.refusals == []
    if fault.effect in TRANSIENT:
        assert log.words().count("started") == 2
    if fault.effect != "altered":
        assert reply.text == RICH.text
        assert reply.reasoning == RICH.reasoning
        assert [(made.name, made.arguments) for made in reply.calls] == [
            (made.name, made.arguments) for made in RICH.calls
        ]


async def test_a_dead_main_model_is_replaced_by_the_spare_one():
    dead = FormatClient(CHAT, "http://127.0.0.1:1/v1", None)
    async with served(call("ls")) as (_, spare):
        reply = await fetch(Log(), route(dead, "dead"), spare, retries=1)
    await dead.aclose()
    assert reply.route == "main"
    assert reply.calls[0].name == "ls"


async def test_cancelling_a_reply_closes_its_connection():
    async with served(say("hello " * 20, stall_at=600, stall=60)) as (server, main):
        shown = asyncio.Event()

        class Listener(Log):
            def show(self, delta: Delta) -> None:
                shown.set()

        task = asyncio.create_task(fetch(Listener(), main))
        await shown.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.requests[0].hung_up.wait()


@pytest.mark.thorough
async def test_hundreds_of_replies_use_one_connection():
    async with served(*[say("hello")] * 200) as (server, main):
        for _ in range(200):
            assert (await fetch(Log(), main)).text == "hello"
        assert server.connections == 1
