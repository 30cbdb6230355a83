"""Faults between us and a server of tools, at each message: turns that hang, and how late the event loop is.

For each transport one session after the other: a turn whose call meets the fault, and a turn after it.
A turn counts as hung when it takes longer than a start and a call may take together. The lateness of a
task that wakes every two milliseconds stands for the echo of a key. The argument is the number of messages.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.events import ToolFinished
from tests.support import fault_proxy, plain_server
from tests.support.engines import Bench, bench
from tests.support.fault_proxy import FAULTS
from tests.support.fault_relay import FaultRelay
from tests.support.replies import calls, say
from tests.support.web_server import web_server

TIMEOUT, CONNECT = 2, 4
LONGEST = CONNECT + TIMEOUT + 3.0
"""Seconds within which a turn has ended: start and call with a second each, and the agent itself."""


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


async def main(messages: int) -> None:
    """Measure both transports and print the figures."""
    seen = Seen()
    sys.setswitchinterval(0.001)  # as while there is a screen
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        async with bench(_made(place / "stdio"), _script) as at:
            control = at.workspace / "control"
            proxy = [
                "-IS",
                fault_proxy.__file__,
                str(control),
                sys.executable,
                "-IS",
                plain_server.__file__,
                "good",
            ]

            async def spoil(fault: str, number: int) -> None:
                control.write_text(f"{fault} {number}")

            await spoil("none", 0)
            await _all(at, {"command": sys.executable, "args": proxy}, spoil, messages, seen)
        with web_server() as web:
            async with (
                FaultRelay(int(web.url.rpartition(":")[2])) as relay,
                bench(_made(place / "http"), _script) as at,
            ):

                async def spoil_relay(fault: str, number: int) -> None:
                    relay.spoil(fault, number)

                await _all(at, {"url": f"http://127.0.0.1:{relay.port}/mcp"}, spoil_relay, messages, seen)
    seen.late.sort()
    print(f"turns: {seen.turns}, hung: {seen.hung}, longest {seen.longest:.1f} s")
    print(f"calls answered all the same: {seen.answered}, with one sentence: {seen.sentences}")
    print(f"otherwise: {len(seen.odd)}")
    for each in seen.odd[:10]:
        print("  ", each[:300])
    worst, p99 = seen.late[-1], seen.late[int(len(seen.late) * 0.99)]
    print(
        f"lateness of the loop: p99 {p99 * 1e3:.1f} ms, worst {worst * 1e3:.1f} ms of {len(seen.late)} wakes"
    )


async def _all(at: Bench, entry: dict[str, Any], spoil: Any, messages: int, seen: Seen) -> None:
    at.config(json.dumps({"mcp_servers": {"box": {**entry, "timeout": TIMEOUT, "connect_timeout": CONNECT}}}))
    await at.turn("go")  # what the server offers is known from here on
    for fault in FAULTS:
        for number in range(1, messages + 1):
            await spoil(fault, number)
            at.events.clear()
            async with at.engine() as engine:
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


def _script(request: Any) -> Any:
    """Each message of the person is answered with one call, and with words after its result."""
    last = request.messages[-1]
    return say("done") if last["role"] == "tool" else calls(("mcp__box__echo", {"text": "hi"}))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 11))
