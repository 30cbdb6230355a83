"""From a key to its painted character, on a real terminal: idle, and under three loads.

`stream`: the model writes 2,000 tokens a second. `crowd`: three subagents write 200 tokens a
second each while a command prints 10 MB. `agents`: three agents that were sent write 200 tokens
a second each, and so does the session's own. Each key is a character that stands nowhere else; that
the load was there is shown by the bytes painted meanwhile and, for the crowd, by the command's size.

Targets: worst echo < 16 ms (stream, agents) and < 20 ms (crowd), median loaded / median idle < 1.3.

`--pairs 5` measures the engine in the process of the screen and in one of its own by turns, five times
each, and ends with a line for each load that compares them. They take turns in going first.

    python benchmarks/key_echo.py [--keys 60] [--tokens 2000] [--only stream] [--process | --pairs 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support import command
from tests.support.model_process import ServerProcess
from tests.support.team import UNASKED
from tests.support.terminal import Terminal

STREAM = """
WORDS = "## Part\\n\\nSome *words* of an answer with `code`, [links](http://x), again.\\n\\n- a\\n- b\\n\\n"
script = lambda request: say(WORDS * 4000, piece=4, pace={pace})
"""

PRINT = """
import sys, time
for step in range(1000):
    print("\\n".join(f"{step:6} {line:4} " + "abcdefghij" * 9 for line in range(100)), flush=True)
    time.sleep(0.006)
print("in all: ten million")
"""

CROWD = (
    f"script = by_step([call('terminal', command='python3 print.py'), say('Printed.')])\nPRINT = {PRINT!r}"
)

AGENTS = f"""
import sys
sys.path.insert(0, {str(command.ROOT)!r})
from tests.support.team import by_task
WORDS = "## Part\\n\\nSome *words* of an answer with `code`, [links](http://x), again.\\n\\n- a\\n- b\\n\\n"
long = say(WORDS * 400, piece=4, pace=1 / 200)
tasks = [{{"goal": goal}} for goal in ("callers", "history", "docs")]
sends = call("delegate_task", tasks=tasks, background=True)
script = by_task({{"main": [sends, long], **{{task["goal"]: [long] for task in tasks}}}})
"""

APPLICATION = f"""
import asyncio, os, sys
sys.path.insert(0, {str(command.ROOT)!r})
from app.main import FRAMES, main
os.environ["TEXTUAL_FPS"] = FRAMES
from agent.events import AgentProgressed, AgentStarted, TextAdded
from app import application

async def crowd(bridge):
    while bridge.state.busy_since is None:
        await asyncio.sleep(0.05)
    names = ["callers", "history", "docs"]
    for name in names:
        bridge(AgentStarted(agent=name, name=name, goal="look at everything about " + name))
    step = 0
    while True:
        step += 1
        for name in names:
            bridge(TextAdded(agent=name, text="word "))
            if step % 20 == 0:
                bridge(AgentProgressed(agent=name, action=f"reading file {{step}}", calls=step, tokens=step))
        await asyncio.sleep(0.005)

class Crowded(application.HermesApp):
    async def open_session(self, wish):
        await super().open_session(wish)
        self.run_worker(crowd(self.bridge))

import app.cli.tui
app.cli.tui.HermesApp = Crowded
sys.exit(main())
"""


def echoes(terminal: Terminal, first: int, count: int) -> list[float]:
    """Seconds from each key to its character on the terminal."""
    times = []
    for number in range(count):
        key = chr(first + number)
        since = len(terminal.painted)
        terminal.press(key)
        times.append(terminal.until(key.encode(), since=since))
        watch(terminal, 0.09)
    return times


def watch(terminal: Terminal, seconds: float) -> None:
    """Read what is painted for a while, as a terminal does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.read(0.01)


def measure(
    script: str, program: Sequence[str], keys: int, loaded: Callable[[Terminal], object], settings: str
) -> tuple[list[float], list[float], float]:
    """Echoes idle and under load, and the bytes painted a second under load."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "work").mkdir()
        (folder / "work" / "print.py").write_text(PRINT)
        with ServerProcess(script, folder) as server:
            env = command.environment(folder / "home", server.base_url)
            (folder / "home").mkdir(mode=0o700, exist_ok=True)
            (folder / "home" / "config.yaml").write_text(UNASKED + settings)
            with Terminal([*program, "--approve", "all"], env, folder / "work") as terminal:
                terminal.until("❯".encode())
                watch(terminal, 6.0)
                idle = echoes(terminal, 0x4E00, keys)[3:]
                terminal.press("\x15go\r")
                loaded(terminal)
                before, began = len(terminal.painted), time.monotonic()
                under = echoes(terminal, 0x5E00, keys)[3:]
                rate = (len(terminal.painted) - before) / (time.monotonic() - began)
    return idle, under, rate


def report(what: str, idle: list[float], loaded: list[float], rate: float) -> None:
    for name, times in (("idle", idle), (what, loaded)):
        middle, worst = statistics.median(times) * 1e3, max(times) * 1e3
        p90 = sorted(times)[int(len(times) * 0.9)] * 1e3
        print(f"{name:8} median {middle:5.1f} ms  p90 {p90:5.1f} ms  worst {worst:5.1f} ms")
    ratio = statistics.median(loaded) / statistics.median(idle)
    print(f"median loaded / idle {ratio:.2f} (target < 1.3); painted {rate:,.0f} bytes a second under load")
    if rate < 10_000:
        raise SystemExit("The load was not painted; these figures say nothing.")


WAYS = {"inside": "", "apart": "engine: {process: true}\n"}
"""Where the engine works, and the settings for that."""


def paired(what: str, pairs: int, once: Callable[[str], tuple[list[float], list[float], float]]) -> None:
    """Measure both ways by turns and say how they compare."""
    medians: dict[str, list[float]] = {way: [] for way in WAYS}
    worst: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(pairs):
        for way in sorted(WAYS, reverse=number % 2 == 0):
            print(f"pair {number + 1}, engine {way}:", flush=True)
            idle, loaded, rate = once(WAYS[way])
            report(what, idle, loaded, rate)
            medians[way].append(statistics.median(loaded) * 1e3)
            worst[way].append(max(loaded) * 1e3)
    for way in WAYS:
        print(
            f"{what}, engine {way}: median {statistics.median(medians[way]):.1f} ms; "
            f"worst of each run {', '.join(f'{each:.1f}' for each in worst[way])} ms"
        )
    better = sum(one < other for one, other in zip(worst["apart"], worst["inside"], strict=True))
    ratio = statistics.median(medians["apart"]) / statistics.median(medians["inside"])
    print(f"{what}: apart / inside {ratio:.2f} of the medians; worst smaller apart in {better} of {pairs}")


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=2_000, help="tokens a second")
    parser.add_argument("--only", choices=["stream", "crowd", "agents"])
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--process", action="store_true", help="with the engine in a process of its own")
    ways.add_argument("--pairs", type=int, default=0, help="both ways by turns, so many times each")
    args = parser.parse_args()
    settings = WAYS["apart" if args.process else "inside"]
    stream = STREAM.replace("{pace}", str(1 / args.tokens))
    crowded = [sys.executable, "-I", "-c", APPLICATION]
    loads: dict[str, tuple[str, Sequence[str], bytes]] = {
        "stream": (stream, command.HERMES, b"Part"),
        "crowd": (CROWD, crowded, b"abcdefghij"),
        "agents": (AGENTS, command.HERMES, b"Part"),
    }
    for name, (script, program, sign) in loads.items():
        if args.only in (None, name):
            once = partial(measure, script, program, args.keys, partial(Terminal.until, wanted=sign))
            if args.pairs:
                paired(name, args.pairs, once)
            else:
                report(name, *once(settings))


if __name__ == "__main__":
    main()
