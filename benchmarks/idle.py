"""What the program costs while nothing happens: CPU over 20 s, and memory at the prompt.

The program waits at its prompt on a real terminal, in a new session; beside it, at the same time, an
empty Textual application, which is the least it could be. CPU is that of the process, from the kernel.
Targets: below 0.5 % of a core, and below 90 MB.

    python benchmarks/idle.py [--seconds 20]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support import command
from tests.support.terminal import Terminal

EMPTY = [sys.executable, "-c", "from textual.app import App; App().run()"]
SETTLE = 6.0
"""Seconds after the prompt until start-up work is over."""
TICK = 100
"""Clock ticks of the kernel in a second."""


@dataclass(frozen=True, slots=True)
class Sample:
    """CPU so far in seconds, and memory in MB."""

    cpu: float
    rss: float


def sample(pid: int) -> Sample:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    rss = int(status.partition("VmRSS:")[2].split()[0]) / 1024
    return Sample((int(fields[11]) + int(fields[12])) / TICK, rss)


def listen(terminals: list[Terminal], seconds: float) -> None:
    """Read what is painted, so that no program waits for its terminal."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for terminal in terminals:
            terminal.read(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name) / "work"
        work.mkdir()
        env = command.environment(Path(name) / "home", "http://127.0.0.1:9/v1")
        with Terminal(command.HERMES, env, work) as ours, Terminal(EMPTY, env, work) as empty:
            ours.until("❯".encode())
            both = [ours, empty]
            listen(both, SETTLE)
            before = [(sample(each.process.pid), len(each.painted)) for each in both]
            listen(both, args.seconds)
            after = [(sample(each.process.pid), len(each.painted)) for each in both]
    for what, (start, seen), (end, painted) in zip(("hermes", "empty Textual"), before, after, strict=True):
        share = (end.cpu - start.cpu) / args.seconds
        print(f"{what:14} {share:6.2%} of a core  {end.rss:6.1f} MB  {painted - seen:6,} bytes painted")


if __name__ == "__main__":
    main()
