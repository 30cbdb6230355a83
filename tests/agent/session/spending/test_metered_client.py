"""Whatever a provider does to a request, no ceiling is exceeded and nothing counted is lost."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from agent.errors import ModelError
from agent.model.catalog import UNKNOWN, ModelInfo
from agent.model.codecs import codec_for
from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import Delta, Frame, ModelRequest, TextDelta
from agent.model.transport.client import FormatClient
from agent.model.transport.reply import ModelReply, ModelRoute, fetch_reply
from agent.model.transport.waits import PatientPolicy, Pause, RetryPolicy, Throttle
from agent.model.wire_format import Wire
from agent.session.spending.budget import Budget, BudgetAccount, BudgetReachedError, Charge
from agent.session.spending.metering import (
    LEAST_OUTPUT,
    USUAL_OUTPUT,
    MeteredClient,
    RequestTally,
    most_tokens,
    never_raised,
)
from agent.session.spending.request_log import NoRequestLog
from tests.support.broken_answers import BROKEN
from tests.support.faults import FAULTS
from tests.support.model_server import ModelServer, say
from tests.support.replies import Reply as Scripted
from tests.support.replies import refuse, usage_of

PRICED = ModelInfo(max_output=1_000, input_price=1.0, output_price=10.0, cached_price=0.1)
SLOW = {"stalled_at_once", "stalled", "no_headers", "huge_line", "deep_json"}
STORMS = sorted({*BROKEN, *(name for name in FAULTS if "usage" in name)} - SLOW)


def message(text: str, role: str = "user") -> Frame:
    return Frame(json.dumps({"role": role, "content": text}).encode())


def request(*texts: str, **fields: Any) -> ModelRequest:
    return ModelRequest(model="m", frames=tuple(map(message, texts)), **fields)


class Quiet:
    def start(self, route: ModelRoute, attempt: int) -> None: ...
    def show(self, delta: Delta) -> None: ...
    def discard(self, reason: str) -> None: ...
    def retry(self, reason: str, delay: float, attempt: int, route: ModelRoute) -> None: ...


@dataclass
class Meters:
    chat: FormatClient
    account: BudgetAccount
    info: ModelInfo = UNKNOWN
    throttle: Throttle = field(default_factory=Throttle)
    tally: RequestTally = field(default_factory=RequestTally)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.pause = Pause(self.account.exclude_time, self.clock)
        self.client = MeteredClient(
            self.chat,
            self.account,
            self.throttle,
            self.pause,
            self.tally,
            request_log=NoRequestLog(self.info),
            reached=never_raised,
        )

    async def ask(self, *texts: str, retries: int = 0, **fields: Any) -> ModelReply:
        async def no_wait(_seconds: float) -> None:
            await asyncio.sleep(0)

        route = ModelRoute(name="m", model="m", client=self.client, wire=Wire(CHAT, codec_for("native")))
        policy = PatientPolicy(retries=retries)
        return await fetch_reply([route], lambda _: request(*texts, **fields), Quiet(), policy, sleep=no_wait)


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


def hasty() -> Throttle:
    """A throttle whose clock runs so fast that nobody waits."""
    return Throttle(sleep=no_sleep, clock=iter(range(0, 10**9, 1_000)).__next__)


@asynccontextmanager
async def served(
    script: Any, account: BudgetAccount, stall: float = 60, **fields: Any
) -> AsyncIterator[tuple[ModelServer, Meters]]:
    async with ModelServer(script) as server:
        chat = FormatClient(CHAT, server.base_url, "key", stall_timeout=stall)
        try:
            yield server, Meters(chat, account, **fields)
        finally:
            await chat.aclose()


def counted(server: ModelServer, replies: Sequence[Scripted]) -> int:
    """Tokens of answers by the server's own count."""
    pairs = zip(server.requests, replies, strict=True)
    usages = [usage_of(reply, len(sent.raw)) or {} for sent, reply in pairs]
    return sum(usage["total_tokens"] for usage in usages)


async def test_a_complete_answer_counts_as_the_provider_counted_it() -> None:
    account = BudgetAccount("a", Budget())
    async with served([say("Good."), say("Better.")], account, info=PRICED) as (server, meters):
        await meters.ask("one")
        await meters.ask("one", "two")
    total = counted(server, [say("Good."), say("Better.")])
    assert account.spent.tokens == meters.tally.tokens == total
    assert account.spent.turns == meters.tally.requests == 2
    assert account.spent.money is not None and account.spent.money > 0
    assert meters.tally.cost == pytest.approx(account.spent.money)
    assert meters.tally.assumed == 0


async def test_without_a_budget_a_request_is_sent_as_it_is() -> None:
    async with served([say("Yes.")], BudgetAccount("a", Budget())) as (server, meters):
        await meters.ask("one")
    assert "max_tokens" not in server.requests[0].body


async def test_the_output_limit_is_made_to_fit_the_account() -> None:
    budget = Budget(tokens=1_000)
    async with served([say("Yes.")], BudgetAccount("a", budget)) as (server, meters):
        await meters.ask("one", max_output=5_000)
    sent = server.requests[0].body["max_tokens"]
    assert sent == 1_000 - most_tokens([message("one")])


async def test_a_request_with_too_little_room_for_an_answer_is_not_sent() -> None:
    most = most_tokens([message("one")])
    account = BudgetAccount("a", Budget(tokens=most + LEAST_OUTPUT - 1))
    async with served([], account) as (server, meters):
        with pytest.raises(BudgetReachedError, match="The budget of a is reached"):
            await meters.ask("one", retries=3)
    assert server.requests == []
    assert account.spent == Charge()


async def test_once_counted_a_prefix_is_known_and_only_what_is_new_is_bounded_by_its_bytes() -> None:
    long = "word " * 4_000
    first = most_tokens([message(long)])
    account = BudgetAccount("a", Budget(tokens=first + 20_000))
    async with served([say("Yes."), say("No.")], account) as (server, meters):
        await meters.ask(long, max_output=300)
        await meters.ask(long, "more", max_output=20_000)
    used = usage_of(say("Yes."), len(server.requests[0].raw)) or {}
    room = first + 20_000 - used["total_tokens"]
    expected = room - used["prompt_tokens"] - most_tokens([message("more")])
    assert server.requests[1].body["max_tokens"] == min(20_000, expected)
    assert expected > 10_000


async def test_a_changed_prefix_is_bounded_by_its_bytes_again() -> None:
    account = BudgetAccount("a", Budget(tokens=50_000))
    async with served([say("Yes."), say("No.")], account) as (server, meters):
        await meters.ask("x" * 4_000)
        spent = account.spent.tokens
        await meters.ask("y" * 4_000, max_output=60_000)
    most = most_tokens([message("y" * 4_000)])
    assert server.requests[1].body["max_tokens"] == 50_000 - spent - most


async def test_money_bounds_the_output_limit() -> None:
    account = BudgetAccount("a", Budget(money=0.004))
    async with served([say("Yes.")], account, info=PRICED) as (server, meters):
        await meters.ask("one")
    most = most_tokens([message("one")])
    limit = server.requests[0].body["max_tokens"]
    assert most * 1e-6 + limit * 1e-5 <= 0.004
    assert limit > 300


async def test_a_budget_of_money_needs_prices() -> None:
    async with served([], BudgetAccount("a", Budget(money=1.0))) as (server, meters):
        with pytest.raises(BudgetReachedError, match=r"the price of the model is not known.*providers"):
            await meters.ask("one")
    assert server.requests == []


async def test_an_answer_that_broke_off_counts_for_the_most_it_could() -> None:
    account = BudgetAccount("a", Budget(tokens=10_000))
    cut = FAULTS["cut_by_reset"](say("Long " * 200))
    async with served([cut, say("Yes.")], account) as (server, meters):
        await meters.ask("one", retries=1, max_output=500)
    most = most_tokens([message("one")]) + 500
    assert meters.tally.assumed == most
    answered = usage_of(say("Yes."), len(server.requests[1].raw)) or {}
    assert account.spent.tokens == most + answered["total_tokens"]


async def test_a_refused_request_costs_nothing_and_slows_the_next_one_down() -> None:
    account = BudgetAccount("a", Budget(tokens=10_000, turns=1))
    now = [0.0]

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    throttle = Throttle(clock=lambda: now[0], sleep=sleep)
    storm = [refuse(429, "Too many.", headers={"retry-after": "7"})] * 9
    async with served([*storm, say("Yes.")], account, throttle=throttle) as (server, meters):
        assert (await meters.ask("one")).text == "Yes."
    assert len(server.requests) == 10
    assert account.spent.turns == meters.tally.requests == 1
    assert meters.tally.assumed == 0
    assert now[0] >= 63


async def test_an_answer_without_a_count_counts_for_the_most_it_could() -> None:
    account = BudgetAccount("a", Budget(tokens=10_000))
    async with served([say("Yes.", usage=None)], account) as (_, meters):
        await meters.ask("one", max_output=500)
    assert account.spent.tokens == most_tokens([message("one")]) + 500


async def test_a_request_waits_for_room_that_another_one_may_give_back() -> None:
    root = BudgetAccount("root", Budget(tokens=1_000))
    async with ModelServer(lambda _: say("Yes.", delay=0.05)) as server:
        chat = FormatClient(CHAT, server.base_url, "key")
        agents = [Meters(chat, root.child(f"a{number}", Budget())) for number in range(4)]
        replies = await asyncio.gather(*(agent.ask("one", max_output=600) for agent in agents))
        await chat.aclose()
    assert [reply.text for reply in replies] == ["Yes."] * 4
    assert root.spent.tokens <= 1_000


async def test_a_pause_breaks_the_answer_off_and_it_is_asked_for_again_afterwards() -> None:
    account = BudgetAccount("a", Budget())
    slow = say("word " * 10_000, pace=0.02)
    async with served([slow, say("Done.")], account) as (server, meters):
        asking = asyncio.create_task(meters.ask("one"))
        while not server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        meters.pause.begin()
        await asyncio.wait_for(server.requests[0].hung_up.wait(), 60)
        await asyncio.sleep(0.05)
        assert not asking.done()
        assert len(server.requests) == 1
        meters.pause.end()
        assert (await asking).text == "Done."
    assert meters.tally.assumed == most_tokens([message("one")]) + USUAL_OUTPUT


async def test_a_paused_agent_sends_nothing_and_its_clock_stands_still() -> None:
    now = [0.0]
    account = BudgetAccount("a", Budget(seconds=10), clock=lambda: now[0])
    async with served([say("Yes.")], account, clock=lambda: now[0]) as (server, meters):
        meters.pause.begin()
        asking = asyncio.create_task(meters.ask("one"))
        await asyncio.sleep(0.05)
        assert server.requests == []
        now[0] = 3_600.0
        meters.pause.end()
        assert (await asking).text == "Yes."
    assert account.seconds == 0.0


async def test_a_killed_request_counts_and_holds_nothing() -> None:
    account = BudgetAccount("a", Budget(tokens=10_000))
    async with served([say("word " * 10_000, pace=0.02)], account) as (server, meters):
        asking = asyncio.create_task(meters.ask("one", max_output=500))
        while not server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(server.requests[0].hung_up.wait(), 60)
    most = most_tokens([message("one")]) + 500
    assert account.spent.tokens == most
    assert account.room() == 10_000 - most


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", STORMS)
async def test_no_fault_gets_a_request_past_the_ceiling(name: str) -> None:
    account = BudgetAccount("a", Budget(tokens=1_500))
    script = lambda _: FAULTS[name](say("word " * 40))  # noqa: E731
    async with served(script, account, stall=0.2, throttle=hasty()) as (_, meters):
        for _ in range(6):
            with suppress(ModelError, BudgetReachedError):
                await meters.ask("one", max_output=LEAST_OUTPUT)
    assert account.spent.tokens <= 1_500
    assert account.room() == 1_500 - account.spent.tokens


async def test_a_random_storm_over_many_agents_stays_below_every_ceiling() -> None:
    chance = Random(7)
    names = ["cut_by_close", "cut_by_reset", "cut_cleanly", "missing_finish_and_done", "malformed_json"]
    given: list[int] = []

    def script(recorded: Any) -> Scripted:
        limit = recorded.body["max_tokens"]
        output = chance.randint(1, limit)
        # A server counts the same text alike each time: what it counted once is relied on.
        size = sum(len(message["content"]) for message in recorded.messages) * 2 // 3 + 1
        usage = {"prompt_tokens": size, "completion_tokens": output, "total_tokens": size + output}
        roll = chance.random()
        if roll < 0.15:
            return refuse(429, "Too many.")
        if roll < 0.4:
            given.append(size + output)
            return FAULTS[chance.choice(names)](say("word " * 60, usage=usage))
        given.append(size + output)
        return say("Yes.", usage=usage)

    root = BudgetAccount("root", Budget(tokens=60_000))
    async with ModelServer(script) as server:
        chat = FormatClient(CHAT, server.base_url, "key")
        throttle = hasty()
        agents = [
            Meters(
                chat,
                root.child(f"a{number}", Budget(tokens=chance.randint(2_000, 30_000))),
                throttle=throttle,
            )
            for number in range(6)
        ]

        async def work(agent: Meters) -> None:
            texts: list[str] = []
            for turn in range(20):
                texts.append(f"message {turn} " * chance.randint(1, 10))
                with suppress(ModelError, BudgetReachedError):
                    await agent.ask(*texts, retries=2)

        await asyncio.gather(*map(work, agents))
        await chat.aclose()
    assert server.refusals == []
    assert sum(given) <= root.spent.tokens <= 60_000
    assert root.spent.tokens == sum(agent.account.spent.tokens for agent in agents)
    for agent in agents:
        assert agent.account.budget.tokens is not None
        assert agent.account.spent.tokens <= agent.account.budget.tokens
        assert agent.tally.tokens == agent.account.spent.tokens


def test_the_patient_policy_keeps_the_limit_of_other_failures() -> None:
    policy = PatientPolicy(retries=1)
    chance = Random(1)
    assert policy.delay(2, ModelError("cut", "x"), chance) is None
    assert policy.delay(15, ModelError("rate_limit", "x"), chance) == 0.0
    assert policy.delay(30, ModelError("rate_limit", "x"), chance) is None
    assert replace(policy, retries=0) == PatientPolicy(retries=0)
    assert isinstance(policy, RetryPolicy)


async def test_text_arrives_piece_by_piece() -> None:
    async with served([say("one two three", piece=4)], BudgetAccount("a", Budget())) as (_, meters):
        pieces = [
            delta.text async for delta in meters.client.stream(request("x")) if isinstance(delta, TextDelta)
        ]
    assert "".join(pieces) == "one two three"
    assert len([piece for piece in pieces if piece]) > 2
