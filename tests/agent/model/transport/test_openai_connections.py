"""Keys, headers, addresses and connections of the client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.model.addresses import is_loopback
from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import Frame, ReplyEnd, TextDelta
from agent.model.transport.client import FailureNames, FormatClient
from tests.support.chat import ASK, KEY, RICH, failure, read, talking
from tests.support.faults import FAULTS
from tests.support.model_server import ModelServer, Reply, refuse, say


@pytest.fixture
def foreign_environment(monkeypatch):
    for name, value in {
        "OPENAI_API_KEY": "sk-env-secret",
        "OPENAI_ADMIN_KEY": "sk-admin-secret",
        "OPENAI_ORG_ID": "org-secret",
        "OPENAI_PROJECT_ID": "project-secret",
        "OPENAI_CUSTOM_HEADERS": "X-Env: header-secret\nAuthorization: Bearer header-secret",
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "http_proxy": "http://127.0.0.1:1",
        "ALL_PROXY": "http://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(name, value)


async def test_nothing_of_the_environment_reaches_another_provider(foreign_environment):
    async with talking(lambda _: say("hi")) as (server, client):
        await read(client)
        other = FormatClient(CHAT, server.base_url, KEY, headers={"X-Title": "Hermes", "X-Env": "mine"})
        await read(other)
        await other.aclose()
    without, with_key = (request.headers for request in server.requests)
    assert "authorization" not in without
    assert "secret" not in str(without)
    assert (with_key["authorization"], with_key["x-title"], with_key["x-env"]) == (
        f"Bearer {KEY}",
        "Hermes",
        "mine",
    )
    assert "secret" not in str(with_key)


async def test_an_own_authorization_header_is_sent_without_a_key():
    async with talking([say("hi")], headers={"authorization": "Basic abc"}) as (server, client):
        await read(client)
    assert server.requests[0].headers["authorization"] == "Basic abc"


async def test_a_proxy_is_used_for_other_hosts(monkeypatch):
    async with ModelServer() as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        client = FormatClient(CHAT, "http://model.invalid/v1", "")
        error = await failure(client)
        await client.aclose()
    assert (error.kind, error.status) == ("not_found", 404)
    assert "POST http://model.invalid/v1/chat/completions" in str(error)


async def test_a_redirect_is_reported_and_not_followed():
    async with ModelServer([say("caught")]) as other:
        target = f"http://user:{KEY}@{other.base_url.removeprefix('http://')}/chat/completions?key={KEY}"
        redirect = Reply(status=307, headers={"location": target}, body=b"")
        async with talking([redirect], key=KEY) as (_, client):
            error = await failure(client)
        assert other.requests == []
    assert error.kind == "not_found"
    assert other.base_url in str(error)
    assert KEY not in str(error)


@pytest.mark.parametrize(
    "script",
    [
        refuse(401, f"Incorrect API key provided: {KEY}."),
        refuse(401, "Incorrect API key provided: sk-liv**********cdef. You can find it in your account."),
        refuse(400, f"bad header Authorization: Bearer {KEY}"),
        refuse(500, f"upstream failed with key={KEY}"),
        say("hi", edits=(lambda payloads: [{"error": {"message": f"denied for {KEY}"}}, *payloads],)),
        say("hi", edits=(lambda payloads: [f"oops {KEY}", *payloads],)),
        Reply(body=f"plain {KEY}".encode(), content_type="text/plain"),
    ],
)
async def test_no_error_ever_shows_a_key(script, caplog):
    caplog.set_level("DEBUG")
    async with talking([script], key=KEY) as (_, client):
        error = await failure(client)
    for secret in (KEY, "sk-liv*", "9abcdef"):
        assert secret not in str(error)
        assert secret not in caplog.text


async def test_a_refused_key_names_the_variable_to_set():
    async with talking(lambda _: refuse(401, "no"), key=KEY, names=FailureNames("acme", "ACME_KEY")) as (
        _,
        client,
    ):
        assert "put a valid key into ACME_KEY" in str(await failure(client))
    async with talking(lambda _: refuse(401, "no"), names=FailureNames("acme", "ACME_KEY")) as (_, client):
        assert "acme wants an API key" in str(await failure(client))


async def test_an_unknown_model_names_the_command_that_mends_it():
    async with talking([FAULTS["status_404"](RICH)]) as (_, client):
        assert "`hermes --model NAME`" in str(await failure(client))


async def test_a_model_without_tools_names_the_mode_that_mends_it():
    async with talking([refuse(400, "gemma does not support tools")], names=FailureNames("ollama")) as (
        _,
        client,
    ):
        assert "hermes config set providers.ollama.tool_mode text" in str(await failure(client))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://127.0.0.1:1/v1", "127.0.0.1:1/v1"),
        ("http://model.invalid/v1", "host name"),
        ("localhost:8000/v1", "http://"),
        ("ftp://localhost/v1", "http://"),
        ("", "http://"),
        ("http:///v1", "http://"),
        ("http://[::1/v1", "http://"),
        ("http://localhost:99999/v1", "port"),
        ("http://user:hunter2@127.0.0.1:1/v1?key=hunter2", "127.0.0.1:1/v1"),
    ],
)
async def test_an_address_nobody_answers_at_is_named_with_the_setting_to_correct(url, words):
    client = FormatClient(CHAT, url, KEY, names=FailureNames("acme"))
    error = await failure(client)
    await client.aclose()
    assert error.kind == "unreachable"
    assert words in str(error)
    assert "providers.acme.base_url" in str(error)
    assert "hunter2" not in str(error)


async def test_a_server_without_tls_is_unreachable_over_https():
    async with ModelServer() as server:
        client = FormatClient(CHAT, server.base_url.replace("http:", "https:"), "")
        error = await failure(client)
        await client.aclose()
    assert error.kind == "unreachable"
    assert "secure connection" in str(error) and "it may speak http:// only" in str(error)


async def test_behind_a_proxy_its_variable_is_named_and_nothing_else(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "")
    client = FormatClient(CHAT, "http://model.invalid/v1", KEY, names=FailureNames("acme"))
    error = await failure(client)
    await client.aclose()
    assert error.kind == "unreachable"
    assert "through a proxy: connection refused; correct HTTP_PROXY, or unset it" in str(error)
    assert "base_url" not in str(error)


async def test_the_variable_with_the_address_is_named_where_it_holds_it():
    client = FormatClient(CHAT, "http://127.0.0.1:1/v1", KEY, names=FailureNames("custom"))
    error = await failure(client)
    await client.aclose()
    assert "check the network and the address (OPENAI_BASE_URL)" in str(error)


@pytest.mark.parametrize("key", ["sk-\n-x", "schlüssel", "a\x00b"])
async def test_a_key_that_cannot_be_sent_is_named_by_its_variable(key):
    async with talking([], key=key) as (server, client):
        error = await failure(client)
        assert server.requests == []
    assert error.kind == "auth"
    assert "OPENAI_API_KEY" in str(error)
    assert key not in str(error)


@pytest.mark.parametrize("headers", [{"X-A": "a\nb"}, {"X A": "b"}, {"X-A": "ü"}])
async def test_a_header_that_cannot_be_sent_is_named(headers):
    async with talking([], headers=headers) as (_, client):
        error = await failure(client)
    assert error.kind == "bad_request"
    assert "headers" in str(error)


@pytest.mark.parametrize("ending", ["", "/", "/chat/completions", "?api-version=1"])
async def test_addresses_are_taken_as_people_write_them(ending):
    async with ModelServer([say("hi")]) as server:
        client = FormatClient(CHAT, f" {server.base_url}{ending} ", f" {KEY}\n")
        assert (await read(client)).text == "hi"
        await client.aclose()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:1/v1", True),
        ("http://LOCALHOST./v1", True),
        ("http://a.localhost/v1", True),
        ("http://127.8.9.1/v1", True),
        ("http://[::1]:80/v1", True),
        ("http://0.0.0.0:80/v1", True),
        ("http://localhost.example.com/v1", False),
        ("http://128.0.0.1/v1", False),
        ("http://127.0.0.1@evil.example/v1", False),
    ],
)
def test_addresses_on_this_machine_are_known(url, expected):
    assert is_loopback(url) is expected


# Connections and the event loop


async def test_one_connection_serves_many_replies_even_if_reading_stops_at_the_end():
    async with talking(lambda _: say("hi " * 50)) as (server, client):
        for _ in range(5):
            async with aclosing(client.stream(ASK)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, ReplyEnd):
                        break
        assert server.connections == 1


async def test_cancelling_closes_the_connection_at_once():
    async with talking([say("hello " * 20, stall_at=600, stall=60)]) as (server, client):
        got_text = asyncio.Event()

        async def listen() -> None:
            async for delta in client.stream(ASK):
                if isinstance(delta, TextDelta):
                    got_text.set()

        task = asyncio.create_task(listen())
        await got_text.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.requests[0].hung_up.wait()


async def test_cancelling_before_the_answer_closes_the_connection_at_once():
    arrived = asyncio.Event()

    def script(_: Any) -> Reply:
        arrived.set()
        return say("hello", delay=60)

    async with talking(script) as (server, client):
        task = asyncio.create_task(read(client))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.requests[0].hung_up.wait()


async def test_leaving_a_stream_closes_its_connection():
    async with talking([say("hello " * 20, stall_at=600, stall=60)]) as (server, client):
        async with aclosing(client.stream(ASK)) as deltas:
            async for _ in deltas:
                break
        await server.requests[0].hung_up.wait()


async def test_a_closed_client_can_be_used_again():
    async with talking(lambda _: say("hi")) as (_, client):
        await client.aclose()
        await read(client)
        await client.aclose()
        await client.aclose()
        assert (await read(client)).text == "hi"


async def test_requests_run_beside_each_other():
    gate = asyncio.Event()

    def script(request: Any) -> Reply:
        number = int(request.messages[0]["content"])
        if number == 9:
            gate.set()
        return say(str(number), delay=0.02)

    async with talking(script) as (_, client):
        asks = [
            replace(ASK, frames=(Frame(json.dumps({"role": "user", "content": str(number)}).encode()),))
            for number in range(10)
        ]
        seen = await asyncio.gather(*(read(client, ask) for ask in asks))
    assert [one.text for one in seen] == [str(number) for number in range(10)]
    assert gate.is_set()


@pytest.mark.thorough
async def test_a_flood_of_chunks_leaves_room_for_other_tasks():
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    text = "word " * 5_000
    async with talking(lambda _: say(text, piece=5)) as (_, client):
        await read(client)
        task = asyncio.create_task(tick())
        await asyncio.sleep(0)
        ticks = 0
        assert (await read(client)).text == text
        task.cancel()
    assert ticks > 10


@pytest.mark.thorough
def test_the_package_is_not_imported_before_the_first_request():
    code = (
        "import sys, agent.model.transport.reply\n"
        "from agent.model.formats.chat import FORMAT\n"
        "from agent.model.transport.client import FailureNames, FormatClient\n"
        "FormatClient(FORMAT, 'http://localhost/v1', None)\n"
        "print([name for name in ('openai', 'httpx2', 'yaml') if name in sys.modules])"
    )
    root = Path(__file__).resolve().parents[4]
    run = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
