"""What it costs to call tools from a script, beside the floor of each on the same machine in the same run.

`cold` and `warm`: from handing over a script to its first call arriving, against a bare
`python -I -S -c pass`, run and waited for; `inside`: cold inside the sandbox, less a
`bwrap … true` with the same arguments. `rpc`: calls a second, against two ping-pongs of the same bytes
over the same kind of socket in which nothing is parsed: `echo` with an event loop at the agent's end, as
there has to be, and `blocking` with both ends waiting in the kernel. `bulk`: a 5 MB result until all its
bytes are with the script, against the same bytes sent raw; reading them as JSON comes on top and is shown
beside it. Floor and measurement take turns.

Targets: warm <= 0.15, cold and inside <= 1.3, rpc >= 0.3, bulk <= 6. Where others use the machine too, run
it at real-time priority: `chrt -f 40 python benchmarks/code_rpc.py`.

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

from agent.core.home import Home
from agent.safety.sandbox.boundary import BoundaryFolders, SessionBoundary
from agent.safety.sandbox.opening import probe
from tools.code.data import CodeJob, CodeLimits
from tools.code.runner import CodeRunner
from tools.services.sandbox import Need

BULK = 5_000_000
PAIRS = 3
REQUEST = (
    b'{"id": 17, "token": "0123456789abcdef0123456789abcdef", "tool": "read_file", "args": {"path": "a"}}\n'
)
RESULT = '{"content": "ok"}'
REPLY = f'{{"id": 17, "result": {RESULT}}}\n'.encode()
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
        while theirs.recv(4096):
            theirs.sendall(REPLY)
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


def echo(count: int) -> float:
    """Round trips a second of the same bytes with an event loop at the answering end."""
    return asyncio.run(_echo(count))


async def _echo(count: int) -> float:
    ours, theirs = socket.socketpair()
    result, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        ours.close()
        start = time.perf_counter()
        for _ in range(count):
            theirs.sendall(REQUEST)
            theirs.recv(4096)
        os.write(told, repr(count / (time.perf_counter() - start)).encode())
        os._exit(0)
    theirs.close()
    gone = asyncio.get_running_loop().create_future()

    class Echo(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(REPLY)

        def connection_lost(self, exc: Exception | None) -> None:
            gone.set_result(None)

    await asyncio.get_running_loop().create_connection(Echo, sock=ours)
    await gone
    await asyncio.to_thread(os.waitpid, pid, 0)
    rate = float(os.read(result, 100))
    os.close(result)
    os.close(told)
    return rate


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


async def measure_start(folder: Path, rounds: int) -> None:
    (folder / "work").mkdir()
    boundary = SessionBoundary(
        probe("bubblewrap"),
        BoundaryFolders(folder / "work", folder / "tmp", Home(folder / "home")),
        network="off",
    )
    warm, cold, inside = CodeRunner(), CodeRunner(spare=False), CodeRunner(boundary, spare=False)
    runners = {"cold": cold, "inside": inside}
    for runner in runners.values():
        await first_call(runner, folder / "work", warm=False)
    times: dict[str, list[float]] = {"bare": [], "true": [], "cold": [], "inside": [], "warm": []}
    for _ in range(rounds):
        times["bare"].append(bare())
        times["true"].append(bounded_true(boundary))
        for name, runner in runners.items():
            times[name].append(await first_call(runner, folder / "work", warm=False))
        times["warm"].append(await first_call(warm, folder / "work", warm=True))
        # The next spare is being started: it must not run beside what is measured next.
        await warm.ready()
        await asyncio.sleep(0.12)
    middle = {name: statistics.median(values) for name, values in times.items()}
    print(f"bare: {middle['bare'] * 1e3:.2f} ms; bwrap true: {middle['true'] * 1e3:.2f} ms")
    middle["inside"] -= middle["true"]
    for name, target in (("warm", 0.15), ("cold", 1.3), ("inside", 1.3)):
        print(
            f"{name}: {middle[name] * 1e3:.2f} ms, {middle[name] / middle['bare']:.3f} of bare (<= {target})"
        )
    for runner in (warm, cold, inside):
        await runner.aclose()


def bounded_true(boundary: SessionBoundary) -> float:
    start = time.perf_counter()
    wrapped = boundary.wrap(["/bin/true"], Need(sockets=True, dies_with_parent=True))
    try:
        subprocess.run(wrapped.argv, pass_fds=wrapped.fds, check=True)
    finally:
        wrapped.started()
    took = time.perf_counter() - start
    wrapped.ended()
    return took


async def measure_calls(folder: Path, calls: int, floors: dict[str, float]) -> None:
    runner = CodeRunner(spare=False)
    rate = float(await printed(runner, folder, MANY.format(calls=calls), RESULT))
    print(f"rpc: {rate:.0f} calls/s")
    for name in ("echo", "blocking"):
        print(f"  {rate / floors[name]:.2f} of {name}, {floors[name]:.0f} (>= 0.3)")
    lines = await printed(runner, folder, MUCH, f'{{"content": "{"x" * BULK}"}}')
    pairs = [tuple(map(float, line.split())) for line in lines.splitlines()]
    moved, whole = (statistics.median(column) for column in zip(*pairs, strict=True))
    floor = floors["bulk"]
    print(
        f"bulk: {moved * 1e3:.1f} ms, {moved / floor:.1f} of raw {floor * 1e3:.2f} ms (<= 6); "
        f"with json.loads {whole * 1e3:.1f} ms, {whole / floor:.1f}"
    )
    await runner.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure calls of tools from scripts.")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--calls", type=int, default=3000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(measure_start(Path(name), options.rounds))
        for _ in range(PAIRS):
            floors = {"echo": echo(options.calls), "blocking": ping_pong(options.calls), "bulk": raw_bulk()}
            asyncio.run(measure_calls(Path(name), options.calls, floors))


if __name__ == "__main__":
    main()
