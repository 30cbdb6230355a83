"""Work on threads, and whoever waits for it."""

from __future__ import annotations

import asyncio
import threading

from tools.kit.threads import on_thread, to_the_end


def test_what_a_thread_returns_is_there_for_whoever_waits_though_the_loop_ends() -> None:
    go_on = threading.Event()
    results: list[bool] = []

    async def wait_for_it() -> None:
        work = on_thread(go_on.wait, 20)
        try:
            await to_the_end(work)
        finally:
            results.append(work.result())

    async def let_go_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            go_on.set()

    async def leave() -> None:
        tasks = {asyncio.create_task(wait_for_it()), asyncio.create_task(let_go_at_the_end())}
        await asyncio.wait(tasks, timeout=0)

    asyncio.run(leave())
    assert results == [True]
