"""Hermes beside any other full-screen program that has a prompt, on the same terminal and machine.

Every round starts each program once, in turn, so that a busy machine troubles all alike:

- first: the first byte on the screen;
- usable: the echo of a key pressed again and again since the start, each time another one;
- echo: of keys at the prompt, a tenth of a second apart, when the program has been left alone for a while;
- idle: CPU of the program and of all its children, and the memory that is theirs alone or their share of it.

    python benchmarks/beside.py [--rounds 5] [--variable NAME=VALUE]... 'name=command with arguments'...

A program gets an empty home, the variables given, and has to come up with its prompt without being asked
anything; nothing is sent to any model.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support import command
from tests.support.terminal import Terminal

AGAIN = 0.01
"""Seconds between two keys while a program starts."""
SETTLE = 6.0
"""Seconds after the first echo until start-up work is over."""
IDLE = 10.0
"""Seconds over which CPU is counted."""
KEYS = 30
APART = 0.1
TICK = os.sysconf("SC_CLK_TCK")
FIRST_KEY = 0x4E00
"""Keys are characters that no program shows of itself."""


@dataclass(slots=True)
class Figures:
    """Of one program; times in milliseconds, memory in MB, CPU as a share of a core."""

    first: list[float] = field(default_factory=list)
    usable: list[float] = field(default_factory=list)
    echo: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        middle = statistics.median
        ninth = statistics.quantiles(self.echo, n=10)[-1]
        return (
            f"first {middle(self.first):6.0f} ms  usable {middle(self.usable):6.0f} ms  "
            f"echo {middle(self.echo):5.1f} ms, p90 {ninth:5.1f}, worst {max(self.echo):5.1f}  "
            f"idle {middle(self.cpu):6.2%}  {middle(self.memory):6.1f} MB"
        )


def family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in thread.read_text().split():
            yield from family(int(child))


def cpu(pid: int) -> float:
    """Seconds of CPU that a process and those below it have taken."""
    ticks = 0
    for each in family(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICK


def memory(pid: int) -> float:
    """MB that a process and those below it take; what several share counts in parts."""
    rollups = [Path(f"/proc/{each}/smaps_rollup").read_text() for each in family(pid)]
    return sum(int(text.partition("\nPss:")[2].split()[0]) for text in rollups) / 1024


def listen(terminal: Terminal, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        terminal.read(left)


def measure(program: list[str], env: dict[str, str], folder: Path, figures: Figures) -> None:
    keys = map(chr, count(FIRST_KEY))
    with Terminal(program, env, folder) as terminal:
        began = time.perf_counter()
        terminal.until(lambda: bool(terminal.painted))
        figures.first.append((time.perf_counter() - began) * 1e3)
        pressed: list[bytes] = []
        while not any(key in terminal.painted for key in pressed):
            pressed.append((key := next(keys)).encode())
            terminal.press(key)
            listen(terminal, AGAIN)
        figures.usable.append((time.perf_counter() - began) * 1e3)
        listen(terminal, SETTLE)
        before = cpu(terminal.process.pid)
        listen(terminal, IDLE)
        figures.cpu.append((cpu(terminal.process.pid) - before) / IDLE)
        figures.memory.append(memory(terminal.process.pid))
        for _ in range(KEYS):
            seen, key = len(terminal.painted), next(keys)
            terminal.press(key)
            figures.echo.append(terminal.until(key.encode(), since=seen) * 1e3)
            listen(terminal, APART)


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--variable", action="append", default=[])
    parser.add_argument("programs", nargs="*")
    args = parser.parse_args()
    programs = {"hermes": command.HERMES}
    for each in args.programs:
        name, _, text = each.partition("=")
        programs[name] = shlex.split(text)
    more = dict(each.split("=", 1) for each in args.variable)
    figures = {name: Figures() for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        work.mkdir()
        env = {"LANG": "C.UTF-8"} | command.environment(Path(folder) / ".hermes", "http://127.0.0.1:9/v1")
        for number in range(-1, args.rounds):  # the first round only fills caches
            for name, program in programs.items():
                measure(program, env | more, work, Figures() if number < 0 else figures[name])
    for name, each in figures.items():
        print(f"{name:16} {each}")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
