"""Messages of jobs and tools into chats: whom they reach, once, and what is said where they cannot."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.api.job_runs import _send as send_of_run  # pyright: ignore[reportPrivateUsage]
from agent.automation.schedule import job_table
from agent.automation.schedule.book import JobBook
from agent.automation.schedule.job import JobRun, delivery_rule, full_delivery
from agent.core.config.sections import MessengerSettings
from agent.core.home import Home
from agent.core.store.store import Store
from agent.errors import ConfigError
from agent.integrations.gateways import book, people
from agent.integrations.gateways.adapter import Place
from agent.integrations.gateways.outgoing import OutgoingMessages
from tools.results import ToolError
from tools.services.actions import Action

SETTINGS = MessengerSettings.model_validate(
    {
        "telegram": {"enabled": True, "allow": ["777"]},
        "discord": {"enabled": True, "home": "home-channel/thread"},
        "slack": {"enabled": True},
    }
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "state.db") as opened:
        yield opened


def _paired(c: Any, id: str, name: str, chat: str) -> None:
    code = people.new_code(c, "telegram", id, name, chat, time.time())
    people.pair(c, code, "talk", time.time())


async def test_a_target_is_a_messenger_a_known_chat_or_a_person(store: Store) -> None:
    outgoing = OutgoingMessages(SETTINGS, {})

    assert outgoing.enabled_names == ("telegram", "discord", "slack")
    alone = await store.database.read(lambda c: outgoing.find(c, "telegram"))
    assert alone.place == Place("777"), "who may talk by the settings, until somebody is paired"

    def prepared(c: Any) -> None:
        _paired(c, "11", "Ana", "chat-of-ana")
        _paired(c, "22", "Ben", "chat-of-ben")
        people.new_code(c, "telegram", "33", "Mallory", "chat-of-mallory", time.time())
        book.bind(c, "telegram", Place("-100", "7"), "s", 0, True, 1.0)

    await store.database.write(prepared)

    async def found(target: str, **more: bool) -> str:
        try:
            return str((await store.database.read(lambda c: outgoing.find(c, target, **more))).place)
        except ConfigError as error:
            return f"refused: {error}"

    assert await found("telegram") == "chat-of-ben"
    assert await found("telegram:Ana") == await found(" telegram : 11 ") == "chat-of-ana"
    assert await found("telegram:-100/7") == "-100/7" and await found("telegram:777") == "777"
    assert await found("discord") == await found("discord:home-channel/thread") == "home-channel/thread"
    assert "knows no chat 'Mallory'" in await found("telegram:Mallory")
    assert "knows no chat 'chat-of-mallory'" in await found("telegram:chat-of-mallory")
    assert "knows no chat" in await found("discord:elsewhere")
    assert await found("discord:elsewhere", named_by_person=True) == "elsewhere"
    assert "slack has no chat to send to; write to Hermes there" in await found("slack")
    assert "run `hermes gateway setup matrix`" in await found("matrix")
    assert "There is no messenger 'pigeon'" in await found("pigeon:1")


async def test_long_texts_come_in_parts_and_secrets_stay_here(store: Store) -> None:
    outgoing = OutgoingMessages(SETTINGS, {"KEY": "correct-horse-battery"})
    text = "\n\n".join(["word " * 100] * 20) + "\n\nthe key is correct-horse-battery"

    def work(c: Any) -> tuple[int, ...]:
        return outgoing.queue_message(c, outgoing.find(c, "telegram:777"), text, "A *job*")

    rows = await store.database.write(work)
    told = await store.database.read(lambda c: [book.delivery(c, row) for row in rows])
    texts = [each.body["text"] for each in told if each is not None]
    assert len(texts) == 3 and all(len(each) <= 4_096 for each in texts)
    assert texts[0].startswith("**A job**\nword") and "correct-horse" not in "".join(texts)


async def test_a_run_is_handed_to_a_chat_once_over_a_cut(store: Store, tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "config.yaml").write_text("gateways: {telegram: {enabled: true, home: '42'}}")
    job = await JobBook(store.database, home.schedule).add(
        {"schedule": "every 1h", "prompt": "look", "deliver": "telegram", "zone": "UTC"}
    )
    assert job.intent.deliver == "message:telegram"

    def ended(c: Any) -> JobRun:
        run = job_table.ask_for(c, job.id, 1_000, "asked")
        job_table.begin(c, run.id, 1.0)
        job_table.end(c, run.id, "done", 2.0, "all is well", "", {}, "waiting")
        return job_table.run(c, run.id)

    run = await store.database.write(ended)

    async def permit(_action: Action) -> None:
        """The gate lets it."""

    hand_on = partial(send_of_run, home, store.database, run, "telegram", "all is well", "look", permit)
    await hand_on()
    # As after a kill behind the transaction: the runner did not hear of it and tries again.
    await hand_on()
    rows = await store.database.read(lambda c: c.execute("SELECT chat, body FROM deliveries").fetchall())
    assert rows == [("42", '{"text": "**look**\\nall is well"}')]
    assert (await store.database.read(lambda c: job_table.run(c, run.id))).delivery == "done"
    with pytest.raises(ToolError, match="hermes gateway setup signal"):
        await send_of_run(home, store.database, run, "signal", "x", "y", permit)


def test_a_messenger_may_be_named_alone() -> None:
    assert full_delivery("telegram") == "message:telegram"
    assert full_delivery("email:ana@example.org") == "message:email:ana@example.org"
    assert full_delivery("file:telegram") == "file:telegram" and full_delivery("notice") == "notice"
    assert delivery_rule("telegram:Ana") == "message(telegram:Ana)" and delivery_rule("file:x") == ""
