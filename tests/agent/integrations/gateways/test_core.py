"""The core of messengers on a store, without a service."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.core.config.schema import Settings
from agent.core.config.sections import MessengerSettings, SignalSettings
from agent.core.home import Home
from agent.core.store.received import mark_taken
from agent.core.store.store import Store
from agent.integrations.gateways import book
from agent.integrations.gateways.adapter import (
    GatewayContext,
    Incoming,
    Place,
    Sender,
    gateway_kind,
    make_adapter,
)
from agent.integrations.gateways.chat_head import command_of, no_command, plain, word_of
from agent.integrations.gateways.outgoing import ChatTarget, move
from agent.integrations.gateways.running_gateway import AllGateways, RunningGateway
from tests.support.chat_platform import OWNER
from tests.support.signal_server import SignalServer
from tests.support.telegram_server import TelegramServer

HERE = Place("chat")


async def test_nothing_is_sent_before_the_platform_has_said_who_we_are(tmp_path: Path) -> None:
    """What an earlier process owes waits for the account; without one a daemon refuses it for good."""
    with SignalServer() as signal:
        settings = SignalSettings.model_validate(signal.settings())
        context = GatewayContext("signal", settings, {}, tmp_path)
        async with await Store.open(tmp_path / "state.db") as store:

            async def state() -> str:
                return await store.database.read(
                    lambda c: c.execute("SELECT state FROM deliveries WHERE id = ?", (row,)).fetchone()[0]
                )

            row = await store.database.write(
                lambda c: book.queue_delivery(c, "signal", Place(OWNER), "text", {"text": "owed"}, 0.0)
            )
            adapter = make_adapter(gateway_kind("signal"), context)
            host: Any = SimpleNamespace(database=store.database)
            house: Any = SimpleNamespace()
            gateway = RunningGateway("signal", adapter, settings, host, 1.0, str(tmp_path), house)
            signal.hold_accounts.clear()
            running = asyncio.create_task(gateway.run())
            await asyncio.to_thread(signal.asked_for_accounts.wait, 20)
            for _ in range(5):
                gateway.wake_sender()
                assert await state() == "waiting"
            assert signal.shown == []
            signal.hold_accounts.set()
            async with asyncio.timeout(60):
                while await state() == "waiting":
                    if running.done():
                        await running
                    await asyncio.sleep(0.01)
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            assert await state() == "sent"
            # The loop closes the sockets a moment after the client.
            await asyncio.sleep(0.05)
        assert [each.text for each in signal.shown] == ["owed"]
        assert signal.refusals == []


async def test_a_message_of_blanks_counts_for_nothing(tmp_path: Path) -> None:
    settings = SignalSettings.model_validate({})
    adapter = make_adapter(gateway_kind("signal"), GatewayContext("signal", settings, {}, tmp_path))
    async with await Store.open(tmp_path / "state.db") as store:
        host: Any = SimpleNamespace(database=store.database)
        others: Any = SimpleNamespace()
        gateway = RunningGateway("signal", adapter, settings, host, 1.0, str(tmp_path), others)
        told = []
        for text in ["", "  ", "\n", "\u200b", "hello"]:
            await gateway.take(Incoming(id=text, place=HERE, sender=Sender(OWNER, "Ana"), text=text))
            told.append(
                await store.database.read(
                    lambda c: c.execute("SELECT count(*) FROM deliveries").fetchone()[0]
                )
            )
        assert told == [0, 0, 0, 0, 1]
        await adapter.aclose()


@pytest.mark.thorough
async def test_a_messenger_ends_also_at_the_moment_when_there_is_news(tmp_path: Path) -> None:
    with SignalServer() as signal:
        settings = SignalSettings.model_validate(signal.settings())
        context = GatewayContext("signal", settings, {}, tmp_path)
        async with await Store.open(tmp_path / "state.db") as store:
            host: Any = SimpleNamespace(database=store.database)
            house: Any = SimpleNamespace()
            for moments in range(8):
                adapter = make_adapter(gateway_kind("signal"), context)
                gateway = RunningGateway("signal", adapter, settings, host, 1.0, str(tmp_path), house)
                running = asyncio.create_task(gateway.run())
                await gateway.wait_until_known()
                await asyncio.sleep(0.05)
                gateway.wake_sender()
                for _ in range(moments):
                    await asyncio.sleep(0)
                running.cancel()
                done, _ = await asyncio.wait([running], timeout=20)
                assert done, f"it continues, {moments} steps behind the news"


async def test_all_libraries_are_read_before_any_messenger_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openai takes an httpx that another thread is still reading for a whole one, and the turn fails."""
    begun: list[bool] = []

    def made(kind: Any, context: Any) -> Any:
        if kind.name == "telegram":
            begun.append(signal.asked_for_accounts.wait(0.3))
        return make_adapter(kind, context)

    monkeypatch.setattr("agent.integrations.gateways.running_gateway.make_adapter", made)
    with SignalServer() as signal, TelegramServer() as telegram:
        servers = {"signal": signal, "telegram": telegram}
        settings = Settings.model_validate(
            {"gateways": {name: each.settings() for name, each in servers.items()}}
        )
        async with await Store.open(tmp_path / "state.db") as store:
            host: Any = SimpleNamespace(database=store.database)
            gateways = AllGateways(host, Home(tmp_path), settings, telegram.secrets(), tmp_path)
            assert await gateways.start() == ("signal", "telegram")
            assert await asyncio.to_thread(signal.asked_for_accounts.wait, 20)
            await gateways.aclose()
    assert begun == [False]


async def test_the_end_of_a_turn_ends_no_message_of_the_next_one(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "state.db") as store:

        def both(c: Any) -> list[tuple[int, str]]:
            for number, node in ((1, 5), (2, 9)):
                incoming = Incoming(id=str(number), place=HERE, sender=Sender("me"), text="do it")
                assert book.receive(c, "telegram", incoming, time.time())
                c.execute(
                    "UPDATE received SET state = 'taken', session = 's', node = ? WHERE message = ?",
                    (node, str(number)),
                )
            book.mark_turn_done(c, "s", 6)
            return c.execute("SELECT node, state FROM received ORDER BY id").fetchall()

        assert await store.database.write(both) == [(5, "done"), (9, "taken")]


@pytest.mark.parametrize("to", ["another session", "the terminal", "another chat"])
@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_message_whose_chat_goes_elsewhere_waits_for_no_turn_that_no_chat_hears(
    tmp_path: Path, to: str, is_stored: bool
) -> None:
    async with await Store.open(tmp_path / "state.db") as store:

        def go(c: Any) -> list[str]:
            now = time.time()
            book.bind(c, "telegram", HERE, "s", 0, False, now)
            book.receive(c, "telegram", Incoming(id="1", place=HERE, sender=Sender("me"), text="do it"), now)
            book.mark_handed(c, 1, "s", "do it")
            if is_stored:
                mark_taken(c, 1, "s", 5)
            match to:
                case "another session":
                    move(c, "t", "", 0, ChatTarget("telegram", HERE))
                case "another chat":
                    move(c, "s", "", 0, ChatTarget("telegram", Place("other")))
                case _:
                    move(c, "s", "", 0, None)
            if not is_stored:
                mark_taken(c, 1, "s", 5)
            return [state for (state,) in c.execute("SELECT state FROM received")]

        assert await store.database.write(go) == ["taken" if to == "another chat" else "done"]


async def test_a_message_shown_while_a_turn_ran_takes_up_no_later_answer(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "state.db") as store:

        def told(c: Any) -> list[tuple[str, str]]:
            now = time.time()
            body = {"text": "reads a file"}
            row = book.queue_delivery(c, "telegram", HERE, "text", body, now, session="s", state="draft")
            book.mark_sent(c, row, "77")
            book.bind(c, "telegram", HERE, "s", 0, False, now)
            book.drop_drafts(c, "telegram", HERE, "s")
            bound = book.find_bound_place(c, "telegram", HERE)
            assert bound is not None
            assert book.queue_node(c, "telegram", bound, 3, [{"text": "An answer."}], now)
            return c.execute("SELECT message, state FROM deliveries ORDER BY id").fetchall()

        assert await store.database.write(told) == [("77", "sent"), ("", "waiting")]


async def test_only_who_wrote_a_message_changes_it(tmp_path: Path) -> None:
    """Not every platform sees to that: in Matrix anybody may claim to edit."""
    async with await Store.open(tmp_path / "state.db") as store:

        def both(c: Any) -> list[str]:
            said = Incoming(id="1", place=HERE, sender=Sender("me"), text="mine")
            assert book.receive(c, "matrix", said, time.time())
            found = []
            for who in ("you", "me"):
                edit = Incoming(id="1", kind="edited", place=HERE, sender=Sender(who), text=f"of {who}")
                assert not book.receive(c, "matrix", edit, time.time())
                found += [each.incoming.text for each in book.waiting(c, "matrix", HERE)]
            return found

        assert await store.database.write(both) == ["mine", "of me"]


def test_commands_may_begin_with_either_mark() -> None:
    for text in ("/model gpt", "!model gpt", "  !MODEL  gpt ", "/model\ngpt"):
        found = command_of(text)
        assert found is not None
        assert (found[0].name, found[1]) == ("model", "gpt")
    for text in ("!important: read this", "! model", "model", "/etc/hosts is broken"):
        assert command_of(text) is None


def test_a_word_behind_a_slash_is_a_command_and_two_slashes_begin_a_message() -> None:
    assert word_of(" /modle gpt now ") == ("modle", "gpt now") and word_of("/x") == ("x", "")
    for text in ("/etc/hosts is broken", "//etc", "// a remark", "/ x", "!important", "/7", "x /y", "/"):
        assert word_of(text) is None
    assert plain("//deploy it") == "/deploy it" and plain("//x") == "/x"
    for text in ("// a remark", "//server/share", "x //y", "///x"):
        assert plain(text) == text
    assert no_command("modle").startswith("There is no command /modle; did you mean /model? /help")
    assert "did you mean" not in no_command("qqqq")


def test_every_platform_has_settings() -> None:
    from agent.integrations.gateways.adapter import gateway_kinds

    assert set(gateway_kinds()) == set(MessengerSettings.model_fields)
