"""Answers of platforms that are no answers: each is one sentence, and asks for a later try."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.schema import Settings
from agent.integrations.gateways.adapter import (
    Adapter,
    CallAnswer,
    GatewayContext,
    GatewayError,
    Incoming,
    Outgoing,
    OutgoingFile,
    Place,
    PlatformCall,
    RateLimitedError,
    UndeliverableError,
    gateway_kind,
    make_adapter,
)
from agent.integrations.gateways.platforms.discord import DiscordAdapter
from agent.integrations.gateways.platforms.webhook import signature

pytestmark = pytest.mark.filterwarnings("ignore:'audioop' is deprecated:DeprecationWarning")
TOKEN = "123456:abcdefghijklmnopqrstuvwxyzABCDEFGHI"
MORE = {"whatsapp": {"phone_id": "12345"}, "signal": {"account": "+491"}, "matrix": {"user": "@h:x"}}
CALLS = ("telegram", "slack", "whatsapp", "signal", "matrix", "webhook")
RUNS = ("telegram", "slack", "whatsapp", "signal", "matrix", "discord")


def http(status: int, body: bytes = b"", *lines: str, media: str = "application/json") -> bytes:
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", f"Content-Type: {media}", *lines]
    return "\r\n".join([*head, "Connection: close"]).encode() + b"\r\n\r\n" + body


PAGE = b"<html>The proxy does not let this through.</html>"
ANSWERS = {
    "a page": http(200, b"<html>Sign in</html>", media="text/html"),
    "no JSON": http(200, b"not json"),
    "nothing in it": http(200, b"null"),
    "a list": http(200, b"[1, null]"),
    "a text": http(200, b'"text"'),
    "another form": http(200, b'{"ok": true, "result": 5, "error": 5, "messages": 5, "files": 5}'),
    "an error of another form": http(200, b'{"ok": false, "error": {"code": -5, "data": {"response": 5}}}'),
    "too deep": http(200, b"[" * 200_000),
    "no UTF-8": http(200, b'{"a": "\xff"}'),
    "a list with a failure": http(500, b"[1]"),
    "a failure without words": http(500),
    **{
        f"a page with {status}": http(status, PAGE, media="text/html")
        for status in (400, 401, 403, 404, 407, 451)
    },
    "cut": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
    "no HTTP": b"\0\1garbage\r\n\r\n",
    "too large": http(200, b'"' + b"a" * 6_000_000 + b'"'),
}


@asynccontextmanager
async def adapter(
    folder: Path, name: str, answer: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Adapter]:
    """An adapter of a platform that gives this answer to the paths that it is asked for."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if (length := re.search(rb"(?i)content-length: (\d+)", head)) is not None:
                await reader.readexactly(int(length[1]))
            writer.write(answer(head.split(b" ")[1].decode()))
            await writer.drain()
        writer.close()

    if name == "discord":
        import discord.http

        # The adapter sets it for the whole process.
        monkeypatch.setattr(discord.http.Route, "BASE", discord.http.Route.BASE)
    kind = gateway_kind(name)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        chosen = {"enabled": True, "api_url": url, **MORE.get(name, {})}
        settings = getattr(Settings.model_validate({"gateways": {name: chosen}}).gateways, name)
        environ = {secret.variable: TOKEN for secret in kind.secrets}
        made = await asyncio.to_thread(make_adapter, kind, GatewayContext(name, settings, environ, folder))
        try:
            yield made
        finally:
            await made.aclose()


async def nowhere(_: Incoming) -> None:
    raise AssertionError("nothing came in")


def is_a_sentence_to_try_again(error: GatewayError) -> bool:
    said = str(error)
    return (
        not isinstance(error, (UndeliverableError, RateLimitedError))
        and said.endswith(".")
        and "\n" not in said
    )


@pytest.mark.parametrize("name", CALLS)
async def test_what_is_sent_meets_no_answer_that_it_cannot_name(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("x")
    now = ""
    async with adapter(tmp_path, name, lambda _: ANSWERS[now], monkeypatch) as made:
        for now in ANSWERS:
            for work in (
                lambda: made.send(Place("123"), Outgoing(text="hi"), "k"),
                lambda: made.send_file(Place("123"), OutgoingFile(file, "a.txt", "file"), "k"),
            ):
                try:
                    # A platform of one's own need not give ids.
                    assert await work() and name == "webhook", now
                except GatewayError as error:
                    assert is_a_sentence_to_try_again(error), (now, repr(error))


@pytest.mark.parametrize("name", RUNS)
async def test_a_connection_ends_in_one_sentence_whatever_the_platform_answers(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The library of Discord tries these again by itself, for half a minute.
    later = ("a list with a failure", "a failure without words", "no HTTP") if name == "discord" else ()
    for now in ANSWERS.keys() - set(later):
        async with adapter(tmp_path, name, lambda _, now=now: ANSWERS[now], monkeypatch) as made:
            ready = asyncio.Event()
            run = asyncio.create_task(made.run(nowhere, lambda _, ready=ready: ready.set()))
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait({run, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if run.done():
                error = run.exception()
                assert isinstance(error, GatewayError) and is_a_sentence_to_try_again(error), (
                    now,
                    repr(error),
                )
            else:
                # It only learns its own name by it.
                run.cancel()
                assert name == "whatsapp", now
                await asyncio.gather(run, return_exceptions=True)


async def test_what_is_sent_to_discord_meets_no_answer_that_it_cannot_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import discord

    names = ("username", "name", "description", "verify_key", "summary", "avatar", "icon")
    me = json.dumps(
        {
            "id": "1",
            "discriminator": "0",
            "bot_public": True,
            "bot_require_code_grant": False,
            **dict.fromkeys(names, "h"),
            "owner": {"id": "2", "discriminator": "0", "username": "o", "avatar": None},
        }
    ).encode()
    file, now = tmp_path / "a.txt", ""
    file.write_text("x")
    # The library tries these again by itself, for half a minute.
    odd = ANSWERS.keys() - {"a list with a failure", "a failure without words", "no HTTP", "too large"}

    def answer(path: str) -> bytes:
        return http(200, me) if path.endswith("/@me") else ANSWERS[now]

    async with adapter(tmp_path, "discord", answer, monkeypatch) as made:
        assert isinstance(made, DiscordAdapter)
        made._client = discord.Client(intents=discord.Intents.none())
        await made._client.login(TOKEN)
        for now in sorted(odd):
            for work in (
                lambda: made.send(Place("123"), Outgoing(text="hi"), "k"),
                lambda: made.send_file(Place("123"), OutgoingFile(file, "a.txt", "file"), "k"),
                lambda: made.edit(Place("123"), "5", Outgoing(text="hi")),
                lambda: made.typing(Place("123")),
            ):
                try:
                    await work()
                except GatewayError as error:
                    assert is_a_sentence_to_try_again(error), (now, repr(error))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("asked", "wait"), [("7", 7.0), ("soon", 5.0), ("nan", 5.0), ("99999999", 3_600.0)])
async def test_a_platform_that_is_asked_too_often_gets_the_pause_it_names(
    tmp_path: Path, name: str, asked: str, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = http(429, b"{}", f"Retry-After: {asked}")
    async with adapter(tmp_path, name, lambda _: refused, monkeypatch) as made:
        with pytest.raises(RateLimitedError) as error:
            await made.send(Place("123"), Outgoing(text="hi"), "k")
    assert error.value.wait == wait


async def test_what_matrix_tells_of_one_room_in_an_odd_form_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, Any] = {"type": "m.room.message", "sender": "@a:x", "event_id": "$1"}
    said["content"] = {"msgtype": "m.text", "body": "hello"}
    rooms = {
        "!odd:x": 5,
        "!odder:x": {"timeline": 5, "summary": 5},
        "!oddest:x": {"timeline": {"events": [5, None]}, "summary": {"m.joined_member_count": "x"}},
        "!good:x": {"timeline": {"events": [5, said]}},
    }
    news = json.dumps({"next_batch": "b", "rooms": {"join": rooms, "invite": {"!bad:x": 5}}}).encode()

    def answer(path: str) -> bytes:
        if "whoami" in path:
            return http(200, b'{"user_id": "@h:x"}')
        return http(200, news if "since=a" in path else b'{"next_batch": "a"}')

    taken: asyncio.Queue[Incoming] = asyncio.Queue()
    async with adapter(tmp_path, "matrix", answer, monkeypatch) as made:
        run = asyncio.create_task(made.run(taken.put, lambda _: None))
        async with asyncio.timeout(60):
            assert (await taken.get()).text == "hello"
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


async def test_a_signed_request_of_another_form_is_refused_and_not_a_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = {"id": "1", "chat": "c", "from": {"id": "p"}, "text": "hi"}
    async with adapter(tmp_path, "webhook", lambda _: b"", monkeypatch) as made:
        for change in (
            {"files": ["x"]},
            {"files": 5},
            {"from": "p"},
            {"from": [1]},
            {"text": 5},
            {"id": None},
        ):
            body, now = json.dumps({**good, **change}).encode(), str(int(time.time()))
            signed = {"x-hermes-timestamp": now, "x-hermes-signature": signature(TOKEN, now, body)}
            answer = await made.hook(PlatformCall("POST", "", signed, {}, body), nowhere)
            assert isinstance(answer, CallAnswer) and answer.status == 400, change


SERVERS = {
    "no mail server": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "nothing": b"",
    "no text": b"\xff\xfe\x00\r\n" * 3,
    "a busy one": b"* BYE too many connections\r\n421 too many connections\r\n",
    "no number": b"* OK ready\r\nabc ready\r\n",
    "a long line": b"* OK " + b"a" * 2_000_000 + b"\r\n",
}


@pytest.mark.parametrize("answer", SERVERS.values(), ids=SERVERS)
async def test_a_mail_server_that_answers_oddly_is_named_in_one_sentence(
    tmp_path: Path, answer: bytes
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(answer)
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        given = {"address": "h@x.example", "imap_host": "127.0.0.1", "smtp_host": "127.0.0.1", "tls": False}
        chosen = {"enabled": True, **given, "imap_port": port, "smtp_port": port}
        settings = Settings.model_validate({"gateways": {"email": chosen}}).gateways.email
        context = GatewayContext("email", settings, {"EMAIL_PASSWORD": "x"}, tmp_path)
        made = await asyncio.to_thread(make_adapter, gateway_kind("email"), context)
        for work in (
            made.run(nowhere, lambda _: None),
            made.send(Place("a@x.example"), Outgoing(text="hi"), "k"),
        ):
            with pytest.raises(GatewayError) as error:
                await work
            assert is_a_sentence_to_try_again(error.value), error.value
        await made.aclose()
