"""From the interrupt to the end of the turn, while a command runs and while the model writes.

Target: 200 ms, the command dead and the history valid. The baseline is killing and reaping a bare child.

    python benchmarks/interrupt.py [--rounds 20]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.events import Event, TextAdded, ToolProgressed
from agent.session.engine import Engine
from tests.support.engines import bench
from tests.support.replies import Reply, call, say


async def until(engine: Engine, kind: type[Event]) -> None:
    """Wait for the next event of a kind."""
    found = asyncio.Event()
    stop = engine.stream.subscribe(lambda event: found.set() if isinstance(event, kind) else None)
    await found.wait()
    stop()


async def interrupted(engine: Engine, text: str, kind: type[Event]) -> float:
    """Seconds from the interrupt to the end of the turn."""
    running = asyncio.create_task(engine.run(text))
    await until(engine, kind)
    began = time.perf_counter()
    engine.interrupt()
    await running
    return time.perf_counter() - began


async def bare_kill() -> float:
    """Seconds to kill and reap a sleeping child."""
    child = await asyncio.create_subprocess_exec("sleep", "300")
    began = time.perf_counter()
    child.kill()
    await child.wait()
    return time.perf_counter() - began


async def measure(rounds: int, folder: Path) -> None:
    def script(request: object) -> Reply:
        last = request.messages[-1]["content"]  # type: ignore[attr-defined]
        return (
            call("terminal", command="echo started; sleep 300")
            if last == "run"
            else say("word " * 4_000, pace=0.01)
        )

    async with bench(folder, script) as b, b.engine() as engine:
        command = [await interrupted(engine, "run", ToolProgressed) for _ in range(rounds)]
        writing = [await interrupted(engine, "talk", TextAdded) for _ in range(rounds)]
        baseline = [await bare_kill() for _ in range(rounds)]
    for name, times in (
        ("bare kill", baseline),
        ("while a command runs", command),
        ("while it writes", writing),
    ):
        middle, worst = statistics.median(times), max(times)
        ratio = middle / statistics.median(baseline)
        print(f"{name:22} median {middle * 1e3:6.1f} ms  worst {worst * 1e3:6.1f} ms  x{ratio:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(measure(args.rounds, Path(name)))


if __name__ == "__main__":
    main()
