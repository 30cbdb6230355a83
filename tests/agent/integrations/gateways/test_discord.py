"""Discord against a strict gateway and API on loopback."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.integrations.gateways.adapter import (
    BadCredentialsError,
    Button,
    GatewayError,
    Outgoing,
    OutgoingFile,
    Place,
    UndeliverableError,
)
from tests.support.adapter_bench import AdapterBench
from tests.support.discord_server import CHANNEL, DIRECT, ME, OWNER, TOKEN, DiscordServer, user

HERE = Place(DIRECT)
pytestmark = pytest.mark.filterwarnings("ignore:'audioop' is deprecated:DeprecationWarning")


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    async with DiscordServer() as running:
        yield running
        assert running.refusals == []


def made(server: DiscordServer, folder: Path, token: str = TOKEN) -> AdapterBench:
    given = {"api_url": server.url, "gateway_url": server.gateway}
    return AdapterBench("discord", folder / "discord", given, {"DISCORD_BOT_TOKEN": token})


@pytest.fixture
async def bench(server: DiscordServer, tmp_path: Path) -> AsyncIterator[AdapterBench]:
    bench = made(server, tmp_path)
    await bench.start()
    await bench.until(lambda: bench.names)
    yield bench
    await bench.stop()


@pytest.mark.thorough
async def test_messages_come_in_with_who_and_where(server: DiscordServer, bench: AdapterBench) -> None:
    first = await server.write("hello")
    await server.write("not for us", CHANNEL)
    await server.write(f"<@{ME}> do it", CHANNEL, mentions=[user(ME, bot=True)])
    await server.write("a bot", author=ME)
    await server.again()
    await bench.until(lambda: len(bench.taken) >= 3)
    said = list(bench.stored.values())
    assert [each.text for each in said] == ["hello", "not for us", "do it"]
    assert (said[0].id, said[0].sender.id, said[0].place, said[0].group) == (first, OWNER, HERE, False)
    assert [(each.group, each.mentioned) for each in said[1:]] == [(True, False), (True, True)]


async def test_buttons_edits_files_and_one_sending(
    server: DiscordServer, bench: AdapterBench, tmp_path: Path
) -> None:
    ask = Outgoing(text="Push **now**?", buttons=(Button("Yes", "a:1"), Button("No", "a:0")))
    id = await bench.adapter.send(HERE, ask, "key")
    assert await bench.adapter.send(HERE, ask, "key") == id and len(server.sent) == 1
    await server.press(id, "a:0")
    pressed = await bench.until(lambda: next((e for e in bench.stored.values() if e.kind == "button"), None))
    assert (pressed.button, pressed.message, pressed.sender.id) == ("a:0", id, OWNER)
    await bench.adapter.acknowledge(pressed, "Denied.")
    assert server.acknowledged[0]["data"]["content"] == "Denied."
    await bench.adapter.edit(HERE, id, Outgoing(text="Denied."))
    assert (server.sent[id]["content"], server.sent[id]["components"]) == ("Denied.", [])
    await bench.adapter.typing(HERE)
    assert server.typing == 1
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    await bench.adapter.send_file(HERE, OutgoingFile(tmp_path / "a.png", "a.png", "image", "look"), "k2")
    assert server.files["a.png"] == b"\x89PNG"
    attachment = {
        "id": "1",
        "filename": "a.png",
        "size": 4,
        "url": f"{server.host}/attachments/a.png",
        "proxy_url": "x",
        "content_type": "image/png",
    }
    await server.write("", attachments=[attachment])
    await server.write("far", attachments=[{**attachment, "url": "https://evil.example/a.png"}])
    near, far = await bench.until(
        lambda: (
            [e for e in bench.stored.values() if e.files][:2][-2:]
            if sum(bool(e.files) for e in bench.stored.values()) == 2
            else None
        )
    )
    assert near.files[0].kind == "image" and await bench.adapter.fetch(near.files[0], 10) == b"\x89PNG"
    with pytest.raises(UndeliverableError, match="not stored"):
        await bench.adapter.fetch(far.files[0], 10)


async def test_limits_and_refusals(server: DiscordServer, bench: AdapterBench, tmp_path: Path) -> None:
    # The library itself waits as long as it is told.
    server.limited = 1
    await bench.adapter.send(HERE, Outgoing(text="x"), "k")
    with pytest.raises(UndeliverableError, match="10003"):
        await bench.adapter.send(Place("42"), Outgoing(text="x"), "k")
    with pytest.raises(UndeliverableError, match="number"):
        await bench.adapter.send(Place("x"), Outgoing(text="x"), "k")
    other = made(server, tmp_path / "other", "wrong.token.x")
    await other.start()
    with pytest.raises(BadCredentialsError):
        await other.until(lambda: False)
    await other.stop()


@pytest.mark.thorough
@pytest.mark.parametrize("resumable", [True, False])
async def test_what_is_said_in_a_gap_comes_after_it(
    server: DiscordServer, bench: AdapterBench, resumable: bool
) -> None:
    """discord.com/developers/docs/events/gateway: resumed, or begun anew where the session is invalid."""
    await server.write("before")
    await bench.until(lambda: bench.stored)
    server.resumable = resumable
    server.closed = True
    await server.cut()
    await bench.until(lambda: not server.sockets)
    for number in range(3):
        await server.write(f"away {number}")
    server.closed = False
    await bench.until(lambda: len(bench.texts()) == 4)
    await server.write("after")
    await bench.until(lambda: len(bench.texts()) == 5)
    assert bench.texts() == ["before", "away 0", "away 1", "away 2", "after"]
    assert (server.resumed, server.identified) == ((1, 1) if resumable else (0, 2))


async def test_what_the_gateway_asks_for_is_done(server: DiscordServer, bench: AdapterBench) -> None:
    server.resumable = True
    await server.ask(1)
    await bench.until(lambda: server.heartbeats)
    await server.ask(7)
    await bench.until(lambda: server.resumed)
    await server.write("after")
    await bench.until(lambda: bench.texts() == ["after"])
    assert server.identified == 1


async def test_a_connection_that_stays_away_is_told_to_the_core(
    server: DiscordServer, bench: AdapterBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library would try again after up to 1,024 seconds."""
    monkeypatch.setattr("agent.integrations.gateways.platforms.discord.LOST", 0.2)
    server.closed = True
    await server.cut()
    with pytest.raises(GatewayError, match="no connection"):
        await bench.until(lambda: False)


async def test_refusals_of_a_message_have_names_of_their_own(
    server: DiscordServer, bench: AdapterBench
) -> None:
    # discord.com/developers/docs/topics/opcodes-and-status-codes
    for status, code, words, kind in (
        (403, 50007, "Cannot send messages to this user", UndeliverableError),
        (403, 50001, "Missing Access", UndeliverableError),
        (400, 50035, "Invalid Form Body", UndeliverableError),
    ):
        server.refuse = (status, code, words)
        with pytest.raises(kind, match=str(code)):
            await bench.adapter.send(HERE, Outgoing(text="x"), f"k{code}")
    with pytest.raises(UndeliverableError, match="10008"):
        await bench.adapter.edit(HERE, "42", Outgoing(text="x"))


@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.thorough)])
async def test_restarts_lose_nothing(server: DiscordServer, bench: AdapterBench, times: int) -> None:
    """What is said while nobody listens is read from the channel afterwards."""
    chance, wanted = random.Random(7), ["first"]
    await server.write("first")
    await bench.until(lambda: bench.stored)
    for number in range(times):
        count = len(bench.names)
        await bench.stop()
        wanted.append(f"away {number}")
        await server.write(wanted[-1])
        await bench.start()
        await bench.until(lambda count=count: len(bench.names) > count)
        if chance.random() < 0.7:
            wanted.append(f"here {number}")
            await server.write(wanted[-1])
        if chance.random() < 0.5:
            await server.again()
    await bench.until(lambda: len(bench.texts()) >= len(wanted))
    assert sorted(bench.texts()) == sorted(wanted)
