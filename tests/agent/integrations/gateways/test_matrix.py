"""Matrix against a strict homeserver on loopback."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.integrations.gateways.adapter import (
    BadCredentialsError,
    GatewayError,
    IncomingFile,
    Outgoing,
    OutgoingFile,
    Place,
    RateLimitedError,
    UndeliverableError,
)
from tests.support.adapter_bench import AdapterBench
from tests.support.matrix_server import DIRECT, ME, OWNER, ROOM, TOKEN, MatrixServer

HERE = Place(DIRECT)


@pytest.fixture
async def server() -> AsyncIterator[MatrixServer]:
    async with MatrixServer() as running:
        yield running
        assert running.refusals == []


@pytest.fixture
async def bench(server: MatrixServer, tmp_path: Path) -> AsyncIterator[AdapterBench]:
    given = {"api_url": server.url, "user": ME, "allow": [OWNER]}
    bench = AdapterBench("matrix", tmp_path / "matrix", given, {"MATRIX_ACCESS_TOKEN": TOKEN})
    server.write("said before we came")
    await bench.start()
    await bench.until(lambda: bench.names)
    yield bench
    await bench.stop()


async def test_messages_come_in_with_who_and_where(server: MatrixServer, bench: AdapterBench) -> None:
    assert bench.names == [ME]
    first = server.write("hello")
    server.write("not for us", ROOM)
    server.write("hermes: do it", ROOM)
    thread = {"rel_type": "m.thread", "event_id": "$root", "is_falling_back": True}
    server.write("there", ROOM, **{"m.relates_to": thread, "m.mentions": {"user_ids": [ME]}})
    reply = {"m.in_reply_to": {"event_id": "$ours"}}
    server.write("> <@hermes:example.org> said\n\nyes", **{"m.relates_to": reply})
    server.write("me", sender=ME)
    server.event(DIRECT, OWNER, {"msgtype": 5})
    server.write("last")
    await bench.until(lambda: len(bench.texts()) == 6)
    said = {each.text: each for each in bench.stored.values()}
    assert set(said) == {"hello", "not for us", "do it", "there", "yes", "last"}
    hello = said["hello"]
    assert (hello.id, hello.sender.id, hello.place, hello.group) == (first, OWNER, HERE, False)
    assert [text for text, each in said.items() if not each.mentioned] == ["not for us"]
    assert said["there"].place == Place(ROOM, "$root") and said["yes"].message == "$ours"


async def test_images_and_voice_come_in_and_go_out(
    server: MatrixServer, bench: AdapterBench, tmp_path: Path
) -> None:
    server.media["picture"] = b"\x89PNG" + b"1" * 50
    info = {"h": 398, "mimetype": "image/jpeg", "size": 31037, "w": 394}
    image = {"msgtype": "m.image", "body": "filename.jpg", "info": info, "url": "mxc://example.org/picture"}
    server.event(DIRECT, OWNER, image)
    audio = {
        **image,
        "msgtype": "m.audio",
        "body": "hear me",
        "filename": "v.ogg",
        "info": {"mimetype": "audio/ogg"},
    }
    server.event(DIRECT, OWNER, audio)
    await bench.until(lambda: len(bench.stored) == 2)
    picture, voice = bench.stored.values()
    assert (picture.files[0].kind, picture.files[0].name, picture.text) == ("image", "filename.jpg", "")
    assert (voice.files[0].kind, voice.files[0].name, voice.text) == ("voice", "v.ogg", "hear me")
    assert await bench.adapter.fetch(picture.files[0], 1_000) == server.media["picture"]
    with pytest.raises(UndeliverableError, match="larger"):
        await bench.adapter.fetch(picture.files[0], 10)
    for id in ("mxc://a/../b", "https://evil.example/x", "mxc://example.org"):
        with pytest.raises(UndeliverableError):
            await bench.adapter.fetch(IncomingFile(id, "x", "file"), 10)
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    id = await bench.adapter.send_file(HERE, OutgoingFile(tmp_path / "a.png", "a.png", "image", "look"), "k")
    assert server.sent[id]["msgtype"] == "m.image" and server.sent[id]["info"]["size"] == 4
    assert server.media[server.sent[id]["url"].rpartition("/")[2]] == b"\x89PNG"


async def test_a_message_is_sent_once_and_can_be_changed(server: MatrixServer, bench: AdapterBench) -> None:
    ask = Outgoing(text="Push **now** <all>?\n\n1. yes\n2. no")
    first = await bench.adapter.send(Place(ROOM, "$root"), ask, "key-1")
    assert await bench.adapter.send(Place(ROOM, "$root"), ask, "key-1") == first
    assert server.sent[first]["m.relates_to"]["event_id"] == "$root"
    assert "<strong>now</strong> &lt;all&gt;" in server.sent[first]["formatted_body"].replace("b>", "strong>")
    await bench.adapter.edit(Place(ROOM, "$root"), first, Outgoing(text="Denied."))
    changed = list(server.sent.values())[-1]
    assert changed["m.relates_to"] == {"rel_type": "m.replace", "event_id": first}
    assert changed["m.new_content"]["body"] == "Denied."
    await bench.adapter.typing(HERE)
    assert server.typing == 1
    relation = {"rel_type": "m.replace", "event_id": "$said"}
    new = {"msgtype": "m.text", "body": "better"}
    server.write("* better", **{"m.new_content": new, "m.relates_to": relation})
    edited = await bench.until(lambda: next((e for e in bench.stored.values() if e.kind == "edited"), None))
    assert (edited.id, edited.text) == ("$said", "better")
    # A choice is a number.
    assert bench.adapter.limits.buttons == 0


async def test_we_come_where_somebody_may_ask_us(server: MatrixServer, bench: AdapterBench) -> None:
    server.invite("!direct:x", "@stranger:example.org")
    server.invite("!group:x", "@stranger:example.org", direct=False)
    server.invite("!ours:x", OWNER, direct=False)
    await bench.until(lambda: len(server.joined) == 2)
    assert server.joined == ["!direct:x", "!ours:x"]


async def test_an_encrypted_message_says_why_it_is_not_read(
    server: MatrixServer, bench: AdapterBench
) -> None:
    # github.com/matrix-nio/matrix-nio, tests/data/events/megolm.json
    content = {
        "algorithm": "m.megolm.v1.aes-sha2",
        "ciphertext": "AwgAEnACgAkLmt6qF84IK++J7UDH2Za1YVchHyprqTqsg...",
        "device_id": "RJYKSTBOIE",
        "sender_key": "IlRMeOPX2e0MurIyfWEucYBRVOEEUMrOHqn/8mLqMjA",
        "session_id": "X3lUlvLELLYxeTx4yOVu6UDpasGEVO0Jbu+QFnm0cKQ",
    }
    server.event(DIRECT, OWNER, content, "m.room.encrypted")
    await bench.until(lambda: bench.stored)
    (incoming,) = bench.stored.values()
    assert (incoming.text, incoming.sender.id, incoming.place) == ("", OWNER, HERE)
    assert incoming.unreadable.startswith("I cannot read encrypted rooms")


async def test_limits_and_refusals_have_names_of_their_own(server: MatrixServer, bench: AdapterBench) -> None:
    server.limited = 1
    with pytest.raises(RateLimitedError) as limited:
        await bench.adapter.send(HERE, Outgoing(text="x"), "k")
    assert limited.value.wait == 2.5
    with pytest.raises(UndeliverableError, match="M_FORBIDDEN"):
        await bench.adapter.send(Place("elsewhere"), Outgoing(text="x"), "k2")
    server.bad_token = True
    with pytest.raises(BadCredentialsError):
        await bench.adapter.send(HERE, Outgoing(text="x"), "k3")
    server.write("wakes it")
    with pytest.raises(BadCredentialsError):
        await bench.until(lambda: False)


async def test_a_broken_connection_is_told_to_the_core(server: MatrixServer, bench: AdapterBench) -> None:
    server.write("first")
    await bench.until(lambda: bench.texts() == ["first"])
    server.cut_next = 1
    server.write("second")
    with pytest.raises(GatewayError, match="cannot be reached"):
        await bench.until(lambda: False)
    await bench.restart()
    await bench.until(lambda: bench.texts() == ["first", "second"])


async def test_what_was_not_stored_comes_again(server: MatrixServer, bench: AdapterBench) -> None:
    bench.refuse = 1
    server.write("once")
    with pytest.raises(OSError, match="no space"):
        await bench.until(lambda: False)
    assert bench.stored == {}
    await bench.restart()
    await bench.until(lambda: bench.texts() == ["once"])


@pytest.mark.thorough
async def test_what_a_look_leaves_out_is_read_from_the_room(
    server: MatrixServer, bench: AdapterBench
) -> None:
    """One like github.com/matrix-nio/matrix-nio, tests/data/sync.json: it holds the last events of a room."""
    server.write("before")
    await bench.until(lambda: bench.texts() == ["before"])
    await bench.stop()
    server.window = 2
    wanted = [f"away {number}" for number in range(9)]
    for words in wanted:
        server.write(words)
        server.event(DIRECT, OWNER, {"displayname": "alice"}, "m.room.topic")
    await bench.start()
    await bench.until(lambda: len(bench.texts()) > len(wanted))
    assert bench.texts() == ["before", *wanted]
    # Where the room shows us none of it, what the look holds still counts.
    await bench.stop()
    server.no_history = True
    for words in ("lost", "kept", "kept too"):
        server.write(words)
    await bench.start()
    await bench.until(lambda: "kept too" in bench.texts())
    assert "lost" not in bench.texts() and "kept" in bench.texts()
    # What was said before we came into a room is nothing to us.
    await bench.stop()
    server.no_history = False
    server.write("long ago", ROOM)
    server.write("hermes: long ago", ROOM)
    server.enter(ROOM)
    server.write("hermes: now", ROOM)
    await bench.start()
    await bench.until(lambda: "now" in bench.texts())
    assert "long ago" not in bench.texts()


async def test_an_invitation_that_was_taken_back_keeps_nobody_waiting(
    server: MatrixServer, bench: AdapterBench
) -> None:
    server.no_join = True
    server.invite("!gone:x")
    server.write("behind it")
    await bench.until(lambda: bench.texts() == ["behind it"])
    assert server.joined == []


async def test_a_limit_of_looks_says_how_long_to_wait(server: MatrixServer, bench: AdapterBench) -> None:
    # github.com/matrix-nio/matrix-nio, tests/data/limit_exceeded_error.json
    server.limit_sync = 1
    server.write("wakes it")
    with pytest.raises(RateLimitedError) as limited:
        await bench.until(lambda: False)
    assert limited.value.wait == 2


async def restarted(server: MatrixServer, bench: AdapterBench, times: int) -> None:
    chance, wanted = random.Random(7), []
    for number in range(times):
        for part in range(chance.randrange(3)):
            wanted.append(f"{number}.{part}")
            server.write(wanted[-1])
        await bench.restart()
        if wanted and chance.random() < 0.5:
            await bench.until(lambda: len(bench.stored) > len(wanted) // 2)
    await bench.until(lambda: len(bench.texts()) >= len(wanted))
    assert bench.texts() == wanted


async def test_restarts_lose_nothing(server: MatrixServer, bench: AdapterBench) -> None:
    await restarted(server, bench, 4)


@pytest.mark.thorough
async def test_a_hundred_restarts_lose_nothing(server: MatrixServer, bench: AdapterBench) -> None:
    await restarted(server, bench, 100)
