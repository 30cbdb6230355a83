"""What it costs to call tools from a script, beside the floor of each on the same machine in the same run.

`cold` and `warm`: from handing over a script to its first call arriving, against a bare
`python -I -S -c pass`, run and waited for. `rpc`: calls a second, against a ping-pong of the same
bytes over the same kind of socket, both ends blocking and nothing parsed. `bulk`: a 5 MB result until
all its bytes are with the script, against the same bytes sent raw; reading them as JSON comes on top
and is shown beside it.

Targets: warm <= 0.15, cold <= 1.3, rpc >= 0.3, bulk <= 6.

    python benchmarks/code_rpc.py [--rounds 25] [--calls 3000]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.code.data import CodeJob, CodeLimits
from tools.code.runner import CodeRunner

BULK = 5_000_000
REQUEST = (
    b'{"id": 17, "token": "0123456789abcdef0123456789abcdef", "tool": "read_file", "args": {"path": "a"}}\n'
)
RESULT = '{"content": "ok"}'
TOOLS = (
    {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
)
FIRST = "from hermes_tools import read_file\nread_file('a')\n"
MANY = """
import time
from hermes_tools import read_file
read_file("a")
start = time.perf_counter()
for _ in range({calls}):
    read_file("a")
print(({calls}) / (time.perf_counter() - start))
"""
MUCH = """
import json, time, hermes_tools
from hermes_tools import read_file
loads, parsing = json.loads, []
def timed(text):
    start = time.perf_counter()
    value = loads(text)
    parsing.append(time.perf_counter() - start)
    return value
json.loads = timed
for _ in range(9):
    parsing.clear()
    start = time.perf_counter()
    read_file("a")
    whole = time.perf_counter() - start
    print(whole - sum(parsing), whole)
"""


def bare() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
    return time.perf_counter() - start


async def first_call(runner: CodeRunner, folder: Path, *, warm: bool) -> float:
    """Seconds from handing over a script to its first call."""
    job = CodeJob(script=FIRST, folder=folder, tools=TOOLS)
    arrived: list[float] = []

    async def serve(tool: str, arguments: dict[str, Any]) -> str:
        arrived.append(time.perf_counter())
        return RESULT

    if warm:
        runner.prepare(job)
        await runner.ready()
        await asyncio.sleep(0.12)
    start = time.perf_counter()
    outcome = await runner.run(job, serve)
    if outcome.status != "ok" or outcome.metadata["warm"] != warm:
        raise SystemExit(f"The script did not run as it should: {outcome}")
    return arrived[0] - start


async def printed(runner: CodeRunner, folder: Path, script: str, result: str) -> str:
    async def serve(tool: str, arguments: dict[str, Any]) -> str:
        return result

    job = CodeJob(script=script, folder=folder, tools=TOOLS, limits=CodeLimits(calls=10**6))
    outcome = await runner.run(job, serve)
    if outcome.status != "ok":
        raise SystemExit(f"The script did not run as it should: {outcome}")
    return outcome.stdout


def ping_pong(count: int) -> float:
    """Round trips a second of a request and a reply that nobody reads."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        reply = f'{{"id": 17, "result": {RESULT}}}\n'.encode()
        while theirs.recv(4096):
            theirs.sendall(reply)
        os._exit(0)
    theirs.close()
    start = time.perf_counter()
    for _ in range(count):
        ours.sendall(REQUEST)
        ours.recv(4096)
    took = time.perf_counter() - start
    ours.close()
    os.waitpid(pid, 0)
    return count / took


def raw_bulk() -> float:
    """Seconds for the same bytes from one process to another, at best of nine."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        data = b"x" * BULK
        while theirs.recv(16):
            theirs.sendall(data)
        os._exit(0)
    theirs.close()
    took = []
    for _ in range(9):
        view = memoryview(bytearray(BULK))
        start = time.perf_counter()
        ours.sendall(b"go")
        done = 0
        while done < BULK:
            done += ours.recv_into(view[done:])
        took.append(time.perf_counter() - start)
    ours.close()
    os.waitpid(pid, 0)
    return statistics.median(took)


async def measure(rounds: int, calls: int) -> None:
    runner, cold_runner = CodeRunner(), CodeRunner(spare=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await first_call(cold_runner, folder, warm=False)
        times: dict[str, list[float]] = {"bare": [], "cold": [], "warm": []}
        for _ in range(rounds):
            times["bare"].append(bare())
            times["cold"].append(await first_call(cold_runner, folder, warm=False))
            times["warm"].append(await first_call(runner, folder, warm=True))
            # The next spare is being started: it must not run beside what is measured next.
            await runner.ready()
            await asyncio.sleep(0.12)
        floor = statistics.median(times["bare"])
        for way, target in (("warm", 0.15), ("cold", 1.3)):
            middle = statistics.median(times[way])
            print(
                f"{way}: {middle * 1e3:.2f} ms, {middle / floor:.3f} of bare, {floor * 1e3:.2f} (<= {target})"
            )
        raw = [ping_pong(calls)]
        rate = float(await printed(cold_runner, folder, MANY.format(calls=calls), RESULT))
        raw.append(ping_pong(calls))
        floor = statistics.mean(raw)
        print(f"rpc: {rate:.0f} calls/s, {rate / floor:.2f} of raw {floor:.0f} (>= 0.3)")
        floor = raw_bulk()
        lines = await printed(cold_runner, folder, MUCH, f'{{"content": "{"x" * BULK}"}}')
        pairs = [tuple(map(float, line.split())) for line in lines.splitlines()]
        moved, whole = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"bulk: {moved * 1e3:.1f} ms, {moved / floor:.1f} of raw {floor * 1e3:.2f} ms (<= 6); "
            f"with json.loads {whole * 1e3:.1f} ms, {whole / floor:.1f}"
        )
        await runner.aclose()
        await cold_runner.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure calls of tools from scripts.")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--calls", type=int, default=3000)
    options = parser.parse_args()
    asyncio.run(measure(options.rounds, options.calls))


if __name__ == "__main__":
    main()
