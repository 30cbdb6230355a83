"""Clients of the socket that mean no good, or nothing at all."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.code.data import LINE_LIMIT, BadRequestError, Clock, parse_request
from tools.code.server import CallDispatcher, ScriptServer, peer_uid
from tools.code.stubs import Offer


async def serve(tool: str, arguments: dict[str, Any]) -> str:
    return json.dumps(arguments)


def dispatcher() -> CallDispatcher:
    return CallDispatcher(Offer(({"name": "read_file"},)), 10_000, Clock(), serve, lambda _: None)


@pytest.fixture
async def server() -> AsyncIterator[ScriptServer]:
    made = ScriptServer()
    made.dispatcher = dispatcher()
    await made.start()
    yield made
    made.close()


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def of(cls, server: ScriptServer) -> Client:
        return cls(*await asyncio.open_unix_connection(server.path, limit=10**8))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, **request: Any) -> Any:
        await self.send(json.dumps(request).encode() + b"\n")
        return await self.answer()

    async def answer(self) -> Any:
        return json.loads(await self.reader.readline())

    async def works(self, server: ScriptServer) -> bool:
        given = await self.ask(id=9, token=server.token, tool="read_file", args={"path": "a"})
        return given == {"id": 9, "result": {"path": "a"}}

    def close(self) -> None:
        self.writer.close()


async def test_only_the_owner_gets_at_the_socket(server: ScriptServer) -> None:
    assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(server.path.stat().st_mode) == 0o600


async def test_another_user_is_hung_up_on() -> None:
    server = ScriptServer(uid=os.getuid() + 1)
    server.dispatcher = dispatcher()
    await server.start()
    client = await Client.of(server)
    try:
        assert await client.reader.read() == b""
        assert server.connections == set()
    finally:
        client.close()
        server.close()


def test_the_system_says_who_is_at_the_other_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert peer_uid(ours) == os.getuid()


@pytest.mark.parametrize("token", ["", "wrong", "ü", None, 7, ["x"]])
async def test_a_wrong_token_gets_an_error_and_nothing_else(server: ScriptServer, token: Any) -> None:
    client = await Client.of(server)
    answer = await client.ask(id=1, token=token, tool="read_file", args={})
    assert answer == {"id": 1, "result": {"error": "The token of the request is not that of this script."}}
    assert server.dispatcher is not None
    assert server.dispatcher.made == 0
    client.close()


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense",
        b"\x00\xff\xfe\x80",
        b"[1, 2]",
        b'"text"',
        b"{" * 100_000,
        b"[" * 100_000,
        b'{"id": 1}',
        b'{"token": {}}',
        b'{"id": 1e999}',
    ],
)
async def test_nonsense_gets_an_error_and_the_connection_goes_on(server: ScriptServer, line: bytes) -> None:
    client = await Client.of(server)
    await client.send(line + b"\n")
    assert "error" in (await client.answer())["result"]
    assert await client.works(server)
    client.close()


@pytest.mark.parametrize(
    "request_", [{"id": "1"}, {"id": True}, {"tool": 3}, {"args": []}, {"args": "x"}, {"id": None}]
)
async def test_fields_of_the_wrong_kind_get_an_error(server: ScriptServer, request_: dict[str, Any]) -> None:
    client = await Client.of(server)
    whole = {"id": 1, "token": server.token, "tool": "read_file", "args": {}} | request_
    assert "needs a number" in (await client.ask(**whole))["result"]["error"]
    assert await client.works(server)
    client.close()


async def test_who_sends_only_nonsense_is_hung_up_on(server: ScriptServer) -> None:
    noisy, quiet = await Client.of(server), await Client.of(server)
    try:
        await noisy.send(b"x\n" * 100_000)
        answers = (await noisy.reader.read()).splitlines()
    except ConnectionError:
        answers = []
    assert len(answers) <= 20
    assert await quiet.works(server)
    noisy.close()
    quiet.close()


async def test_a_line_without_end_is_cut_off(server: ScriptServer) -> None:
    client, other = await Client.of(server), await Client.of(server)
    with pytest.raises(ConnectionError):
        for _ in range(2 * LINE_LIMIT // 1_000_000):
            await client.send(b"x" * 1_000_000)
            await asyncio.sleep(0.01)
        raise ConnectionError(await client.reader.readline())
    assert await other.works(server)
    client.close()
    other.close()


async def test_requests_sent_ahead_are_answered_in_order(server: ScriptServer) -> None:
    client = await Client.of(server)
    one = {"token": server.token, "tool": "read_file"}
    lines = [json.dumps({"id": n, "args": {"path": str(n)}} | one) for n in range(300)]
    await client.send(("\n".join(lines) + "\n").encode())
    assert [(await client.answer())["id"] for _ in range(300)] == list(range(300))
    client.close()


async def test_a_request_in_small_pieces_is_put_together(server: ScriptServer) -> None:
    client = await Client.of(server)
    line = json.dumps({"id": 1, "token": server.token, "tool": "read_file", "args": {"path": "ä"}})
    for byte in line.encode() + b"\n":
        await client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.answer())["result"] == {"path": "ä"}
    client.close()


async def test_a_client_that_goes_away_has_its_call_stopped() -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    async def endless(tool: str, arguments: dict[str, Any]) -> str:
        started.set()
        try:
            await asyncio.sleep(600)
        finally:
            stopped.set()
        return "{}"

    server = ScriptServer()
    server.dispatcher = CallDispatcher(Offer(({"name": "read_file"},)), 5, Clock(), endless, lambda _: None)
    await server.start()
    client = await Client.of(server)
    call = {"id": 1, "token": server.token, "tool": "read_file", "args": {}}
    await client.send(json.dumps(call).encode() + b"\n")
    await started.wait()
    client.close()
    await stopped.wait()
    assert [record.ok for record in server.dispatcher.records] == [False]
    server.close()


async def test_no_script_no_tools(server: ScriptServer) -> None:
    server.dispatcher = None
    client = await Client.of(server)
    answer = await client.ask(id=1, token=server.token, tool="read_file", args={})
    assert answer["result"] == {"error": "No script is running."}
    client.close()


@pytest.mark.thorough
@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_no_bytes_are_mistaken_for_a_request(line: bytes) -> None:
    with pytest.raises(BadRequestError):
        parse_request(line, "0123456789abcdef")


@pytest.mark.thorough
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_what_a_script_sends_is_what_arrives(arguments: dict[str, Any]) -> None:
    from tools.code.child.hermes_child.channel import encode

    line = encode({"id": 1, "token": "t", "tool": "x", "args": arguments}).encode("utf-8", "surrogatepass")
    assert b"\n" not in line
    assert parse_request(line, "t").arguments == arguments
