"""Faults between us and a server of tools, at each message: turns that hang, and how late the event loop is.

For each transport one session after the other: a turn whose call meets the fault, and a turn after it.
A turn counts as hung when it takes longer than a start and a call may take together. The model, the servers
and the faulty way to them live in other processes: the loop does only what that of an application does.
The lateness of a task that wakes every two milliseconds stands for the echo of a key; it holds what the
machine does for others, too. The CPU that one step of the loop takes does not.

    python benchmarks/mcp_faults.py [MESSAGES] [--slow]

`--slow` names the steps of the loop that took more than four milliseconds, with the processor's part of them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.events import ToolFinished
from app.tui.startup.gc_scheduler import GcScheduler
from tests.support import fault_proxy, plain_server
from tests.support.engines import Bench
from tests.support.fault_proxy import FAULTS
from tests.support.fault_relay import FaultRelay
from tests.support.model_process import ServerProcess
from tests.support.web_server import web_server

TIMEOUT, CONNECT = 2, 4
LONGEST = CONNECT + TIMEOUT + 3.0
"""Seconds within which a turn has ended: start and call with a second each, and the agent itself."""
SCRIPT = """
def script(request):
    last = request.messages[-1]
    return say("done") if last["role"] == "tool" else call("mcp__box__echo", text="hi")
"""
"""Each message of the person is answered with one call, and with words after its result."""


@dataclass
class Seen:
    """What came of all turns."""

    turns: int = 0
    hung: int = 0
    sentences: int = 0
    answered: int = 0
    odd: list[str] = field(default_factory=list)
    longest: float = 0.0
    late: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    """CPU seconds of single steps of the loop."""
    slow: Counter[str] = field(default_factory=Counter)
    is_watching: bool = False
    """Whether turns run; while a session opens nobody types into it."""


async def main(messages: int, *, names_slow: bool) -> None:
    """Measure both transports and print the figures."""
    seen = Seen()
    # Both as while there is a screen.
    sys.setswitchinterval(0.001)
    GcScheduler().start()
    _time_steps(seen)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with _bench(place / "stdio") as at:
            control = at.workspace / "control"
            plain = [sys.executable, "-IS", plain_server.__file__, "good"]
            proxy = ["-IS", fault_proxy.__file__, str(control), *plain]

            def spoil(fault: str, number: int) -> None:
                control.write_text(f"{fault} {number}")

            spoil("none", 0)
            await _all(at, {"command": sys.executable, "args": proxy}, spoil, messages, seen)
        with _bench(place / "http") as at, _web() as (url, spoil_relay):
            await _all(at, {"url": url}, spoil_relay, messages, seen)
    seen.late.sort()
    seen.steps.sort()
    print(f"turns: {seen.turns}, hung: {seen.hung}, longest {seen.longest:.1f} s")
    print(f"calls answered all the same: {seen.answered}, with one sentence: {seen.sentences}")
    print(f"otherwise: {len(seen.odd)}")
    for each in seen.odd[:10]:
        print("  ", each[:300])
    for what, times in (("lateness of the loop", seen.late), ("CPU of its steps", seen.steps)):
        worst, p99 = times[-1] * 1e3, times[int(len(times) * 0.99)] * 1e3
        over = ", ".join(f"{sum(each > ms / 1e3 for each in times)} over {ms} ms" for ms in (4, 16))
        print(f"{what}: p99 {p99:.1f} ms, worst {worst:.1f} ms; of {len(times):,}: {over}")
    if names_slow:
        for name, count in seen.slow.most_common(30):
            print(f"  {count:5} {name}")


@contextmanager
def _bench(folder: Path) -> Iterator[Bench]:
    """Engines whose model is another process."""
    workspace = folder / "work"
    workspace.mkdir(parents=True)
    with ServerProcess(SCRIPT, folder) as server:
        # Only its address is asked for.
        yield Bench((folder / "home").resolve(), workspace.resolve(), cast("Any", server))


@contextmanager
def _web() -> Iterator[tuple[str, Callable[[str, int], None]]]:
    """A server over HTTP behind the faulty way, in a process of its own."""
    command = [sys.executable, __file__, "--serve"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    to, back = process.stdin, process.stdout

    def spoil(fault: str, number: int) -> None:
        to.write(f"{fault} {number}\n")
        to.flush()
        back.readline()

    try:
        yield back.readline().strip(), spoil
    finally:
        to.close()
        process.wait(10)
        back.close()


async def _serve() -> None:
    """Be that process."""
    with web_server() as web:
        async with FaultRelay(int(web.url.rpartition(":")[2])) as relay:
            print(f"http://127.0.0.1:{relay.port}/mcp", flush=True)
            while line := await asyncio.to_thread(sys.stdin.readline):
                fault, number = line.split()
                relay.spoil(fault, int(number))
                print("done", flush=True)


def _time_steps(seen: Seen) -> None:
    """Measure what each step of the loop takes of the processor."""
    run = asyncio.Handle._run  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]

    def timed(handle: asyncio.Handle) -> None:
        if not seen.is_watching:
            run(handle)
            return
        what = _named(handle)
        began, at = time.thread_time(), time.perf_counter()
        run(handle)
        took, waited = time.thread_time() - began, time.perf_counter() - at
        seen.steps.append(took)
        if waited > 0.004:
            seen.slow[f"{what}: {took * 1e3:.0f} of {waited * 1e3:.0f} ms"] += 1

    asyncio.Handle._run = timed  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


def _named(handle: Any) -> str:
    """Whose step it is; where a task stands before it."""
    task = getattr(handle._callback, "__self__", None)
    if not isinstance(task, asyncio.Task):
        return getattr(handle._callback, "__qualname__", repr(handle._callback))
    stack = task.get_stack(limit=1)
    where = f"{Path(stack[0].f_code.co_filename).name}:{stack[0].f_lineno}" if stack else ""
    return f"{getattr(task.get_coro(), '__qualname__', '')} {where}"


async def _all(at: Bench, entry: dict[str, Any], spoil: Any, messages: int, seen: Seen) -> None:
    at.config(json.dumps({"mcp_servers": {"box": {**entry, "timeout": TIMEOUT, "connect_timeout": CONNECT}}}))
    await at.turn("go")  # what the server offers is known from here on
    for fault in FAULTS:
        for number in range(1, messages + 1):
            spoil(fault, number)
            at.events.clear()
            async with at.engine() as engine:
                gc.collect()
                seen.is_watching = True
                watch = asyncio.create_task(_lateness(seen.late))
                for text in ("go", "and again"):
                    began = time.perf_counter()
                    try:
                        async with asyncio.timeout(LONGEST * 3):
                            await engine.run(text)
                    except TimeoutError:
                        seen.odd.append(f"{fault} {number}: a turn did not end")
                    took = time.perf_counter() - began
                    seen.turns += 1
                    if took > LONGEST:
                        seen.odd.append(f"{fault} {number}: a turn took {took:.1f} s")
                    seen.hung += took > LONGEST
                    seen.longest = max(seen.longest, took)
                seen.is_watching = False
                watch.cancel()
                await asyncio.gather(watch, return_exceptions=True)
            results = [json.loads(event.result) for event in at.seen(ToolFinished)]
            for result in results:
                said = str(result.get("error", ""))
                if result.get("content") == "hi":
                    seen.answered += 1
                elif said and "\n" not in said and said.count(". ") == 0 and "box" in said:
                    seen.sentences += 1
                else:
                    seen.odd.append(f"{fault} {number}: {result}")
            if len(results) != 2:
                seen.odd.append(f"{fault} {number}: {len(results)} results of two turns")


async def _lateness(late: list[float]) -> None:
    while True:
        wanted = time.perf_counter() + 0.002
        await asyncio.sleep(0.002)
        late.append(time.perf_counter() - wanted)


def _arguments() -> argparse.Namespace:
    reader = argparse.ArgumentParser()
    reader.add_argument("messages", nargs="?", type=int, default=11)
    reader.add_argument("--slow", action="store_true")
    reader.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return reader.parse_args()


if __name__ == "__main__":
    given = _arguments()
    asyncio.run(_serve() if given.serve else main(given.messages, names_slow=given.slow))
