"""From a call of a tool to the next request, in a session on a terminal, in trees of 100 and 50,000 files.

A model's server on loopback asks for `true`, for `python3 -c pass` and for a script of `execute_code`, in
turn, and notes how long after each call the next request comes. After it the same programs run bare, so
that what a call costs beyond its command can be told. A first message opens the session; the calls begin
once the program has read the tree and rests, and the first three are left out. CPU is that of its own
process, without the commands.

Targets on a quiet machine, medians: `true` 40 ms beyond the command in the small tree and 80 ms in the large
one, a script 60 ms; from a call to the next request 60 ms.

    python benchmarks/call_round.py [--calls 30] [--files 100 50000]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.model_listener import ModelListener
from tests.support import command
from tests.support.terminal import Terminal

SIZE = (120, 40)
READY, END = "Ready now.", "All was called."
CALLS = (
    ("true", "terminal", {"command": "true"}, ["true"]),
    ("python3 -c pass", "terminal", {"command": "python3 -c pass"}, ["python3", "-c", "pass"]),
    ("execute_code", "execute_code", {"code": "pass"}, [sys.executable, "-I", "-S", "-c", "pass"]),
)
"""Name, tool, arguments, and what runs bare."""
FIRST = len(CALLS)
TICK = os.sysconf("SC_CLK_TCK")


class Caller(ModelListener):
    """Answers with one call after the other and notes how long each took."""

    def __init__(self, calls: int) -> None:
        self.took: list[float] = []
        self.ready = False
        self._calls, self._made = calls, 0
        super().__init__()

    def answer(self, arrived: float, asked: bytes) -> bytes:
        return self._next(arrived) if b'"tools"' in asked else event({"content": "Calls"}, "stop")

    def _next(self, arrived: float) -> bytes:
        if not self.ready:
            self.ready = True
            return event({"content": READY}, "stop")
        if self._made:
            self.took.append(arrived - self.left)
        if self._made == self._calls:
            return event({"content": END}, "stop")
        _, name, arguments, _ = CALLS[self._made % len(CALLS)]
        self._made += 1
        call = {"name": name, "arguments": json.dumps(arguments)}
        one = {"index": 0, "id": f"call_{self._made}", "type": "function", "function": call}
        return event({"tool_calls": [one]}, "tool_calls")


def event(delta: dict[str, object], why: str) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": why}
    value = {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
    }
    return f"data: {json.dumps(value)}\n\ndata: [DONE]\n\n".encode()


def cpu(pid: int) -> float:
    """Seconds of CPU that a process took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rest(terminal: Terminal) -> None:
    """Read what is painted until the program has done next to nothing for two seconds."""
    spent = 0.0
    while (now := cpu(terminal.process.pid)) - spent > 0.03:
        spent, end = now, time.monotonic() + 2
        while (left := end - time.monotonic()) > 0:
            terminal.read(left)


def session(folder: Path, files: int, calls: int) -> tuple[list[float], float]:
    """Seconds from each call to the next request, and of CPU a call."""
    work = folder / f"tree{files}"
    for number in range(files):
        path = work / f"d{number // 100}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    server = Caller(calls)
    env = command.environment(folder / f"home{files}", server.base_url)
    with Terminal([*command.HERMES, "--approve", "all"], env, work, SIZE) as terminal:
        terminal.until(lambda: bool(terminal.painted))
        terminal.press("hi\r")
        terminal.until(READY.encode(), 60)
        rest(terminal)
        before = cpu(terminal.process.pid)
        terminal.press("go\r")
        terminal.until(END.encode(), 120)
        return server.took, (cpu(terminal.process.pid) - before) / calls


def bare(argv: list[str]) -> float:
    start = time.monotonic()
    subprocess.run(argv, check=True)
    return time.monotonic() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--calls", type=int, default=30, help="of each kind")
    parser.add_argument("--files", type=int, nargs="+", default=[100, 50_000])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        for files in args.files:
            took, spent = session(Path(name), files, args.calls * len(CALLS))
            took = took[FIRST:]
            middle = statistics.median(took) * 1e3
            print(f"{files:,} files: call to next request {middle:.0f} ms, {spent * 1e3:.0f} ms of CPU")
            for number, (title, _, _, argv) in enumerate(CALLS):
                own = took[number :: len(CALLS)]
                alone = statistics.median(bare(argv) for _ in own) * 1e3
                middle = statistics.median(own) * 1e3
                print(
                    f"  {title:16} {middle:4.0f} ms (best {min(own) * 1e3:.0f}), bare {alone:.0f} ms: "
                    f"{middle - alone:.0f} ms beyond the command"
                )
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
