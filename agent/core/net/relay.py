"""Passing bytes between two connected sockets, both ways, until both sides have said their last."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

_PIECE = 1 << 20
"""Bytes that are moved at once, and the size of the pipe in between, where the kernel grants it."""
_READ = 1 << 16
_HAS_SPLICE = hasattr(os, "splice")


async def pour(source: socket.socket, target: socket.socket) -> None:
    """Pass everything that comes from `source` on to `target`, then its end.

    The bytes stay in the kernel where it can move them. Raises `OSError`.
    """
    if _HAS_SPLICE:
        await _spliced(source, target)
    else:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(source, _READ):
            await loop.sock_sendall(target, data)
    half_close(target)


async def both_ways(one: socket.socket, other: socket.socket) -> None:
    """Relay until both have ended; when one breaks off, the other goes too. Raises `OSError`."""
    await together(pour(one, other), pour(other, one))


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Do all of it at once; the first error ends the rest and is raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def readable(source: socket.socket) -> None:
    """Wait until something can be read, be it the end."""
    loop = asyncio.get_running_loop()
    await _ready(source.fileno(), loop.add_reader, loop.remove_reader)


def half_close(target: socket.socket) -> None:
    """Say that nothing more comes."""
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


async def _spliced(source: socket.socket, target: socket.socket) -> None:
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, _PIECE)
        loop = asyncio.get_running_loop()
        while True:
            try:
                count = os.splice(source.fileno(), write_end, _PIECE, flags=os.SPLICE_F_NONBLOCK)
            except BlockingIOError:
                await readable(source)
                continue
            if count == 0:
                return
            while count:
                try:
                    count -= os.splice(read_end, target.fileno(), count, flags=os.SPLICE_F_NONBLOCK)
                except BlockingIOError:
                    await _ready(target.fileno(), loop.add_writer, loop.remove_writer)
    finally:
        os.close(read_end)
        os.close(write_end)


async def _ready(
    descriptor: int, watch: Callable[[int, Callable[[], None]], object], forget: Callable[[int], object]
) -> None:
    """Wait until a descriptor can be read, or written."""
    came = asyncio.get_running_loop().create_future()

    def settle() -> None:
        if not came.done():
            came.set_result(None)

    watch(descriptor, settle)
    try:
        await came
    finally:
        forget(descriptor)
