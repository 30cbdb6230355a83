"""Finding model servers on loopback ports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from agent.model.detect import LARGEST_ANSWER, DetectedServer, detect

MODELS = json.dumps({"object": "list", "data": [{"id": "qwen3:8b"}, {"id": "llama3"}]}).encode()
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[int]:
    """A server on a free port that answers each connection with `answer`."""
    opened: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(reader, writer)
            await writer.drain()
        except (OSError, EOFError):
            pass

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        running.close()
        for writer in opened:
            writer.transport.abort()
        await running.wait_closed()


def sends(*pieces: bytes, close: bool = True) -> Answer:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if close:
            writer.close()

    return answer


def response(body: bytes, head: bytes = b"HTTP/1.1 200 OK", length: bool = True) -> bytes:
    size = b"Content-Length: %d\r\n" % len(body) if length else b""
    return head + b"\r\nContent-Type: application/json\r\n" + size + b"\r\n" + body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
    b"%x\r\n%s\r\n" % (len(part), part) for part in (MODELS[:10], MODELS[10:], b"")
)


@pytest.mark.parametrize(
    "answer",
    [
        sends(response(MODELS)),
        sends(response(MODELS), close=False),
        sends(response(MODELS, length=False)),
        sends(CHUNKED, close=False),
        sends(response(MODELS)[:20], response(MODELS)[20:50], response(MODELS)[50:]),
    ],
)
async def test_a_server_with_models_is_found(answer: Answer) -> None:
    async with server(answer) as port:
        found = await detect({"ollama": port}, time_limit=60)
    assert found == (DetectedServer("ollama", f"http://127.0.0.1:{port}/v1", ("qwen3:8b", "llama3")),)


@pytest.mark.parametrize(
    "body", [b'{"data": []}', b'{"object": "list", "data": null}', b'{"object": "list"}']
)
async def test_a_server_without_models_is_found_too(body: bytes) -> None:
    async with server(sends(response(body))) as port:
        found = await detect({"ollama": port}, time_limit=60)
    assert [each.models for each in found] == [()]


@pytest.mark.parametrize(
    "answer",
    [
        sends(response(b"<html>It works!</html>")),
        sends(response(b"[1, 2]")),
        sends(response(b'{"status": "ok"}')),
        sends(response(b"[" * 100_000)),
        sends(response(MODELS, b"HTTP/1.1 404 Not Found")),
        sends(response(MODELS, b"SSH-2.0-OpenSSH_9.2")),
        sends(b"\x00\x01\x02\r\n\r\n"),
        sends(b""),
        sends(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{}"),
        sends(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}"),
        sends(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}"),
        sends(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n{}" % (LARGEST_ANSWER + 1)),
        sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc"),
        sends(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 300_000),
    ],
)
async def test_everything_else_is_ignored(answer: Answer) -> None:
    async with server(answer) as port:
        assert await detect({"vllm": port}, time_limit=60) == ()


async def test_an_answer_without_end_is_given_up() -> None:
    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b" " * 65536)
            await writer.drain()

    async with server(endless) as port:
        assert await detect({"vllm": port}, time_limit=60) == ()


async def test_a_silent_server_does_not_hold_up_the_others() -> None:
    async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    async with server(sends(response(MODELS))) as port, server(silent) as quiet:
        found = await detect([("vllm", quiet), ("ollama", port)], time_limit=2)
    assert [each.name for each in found] == ["ollama"]


async def test_closed_and_impossible_ports_are_nothing() -> None:
    async with server(sends(b"")) as port:
        pass
    assert await detect({"a": port, "b": 70_000, "c": -1}) == ()


async def test_names_from_outside_are_plain() -> None:
    listed = [
        {"id": "good"},
        {"id": "bad\x1b[31m"},
        {"id": 5},
        {"id": ""},
        {"id": "x" * 999},
        "text",
        {"id": "good"},
    ]
    async with server(sends(response(json.dumps({"data": listed}).encode()))) as port:
        (found,) = await detect({"lmstudio": port}, time_limit=60)
    assert found.models == ("good",)
