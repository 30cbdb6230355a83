"""From the start of the process to what a person sees, on a real terminal.

Every round starts each case once, in turn, so that a busy machine troubles all alike:

- bare: `python -c pass`, from start to exit;
- empty: the first frame of a Textual application that shows one line;
- skeleton: the first byte of `hermes`;
- live: the first frame of `hermes` that its own widgets painted: status bar, rules and prompt;
- usable: the echo of a key that was pressed as soon as the skeleton stood;
- complete: conversation and panes are on the screen as well, while nobody types.

Targets: skeleton / bare ≤ 1.5, live / empty ≤ 1.15. On a shared machine run it as `chrt -f 40 python …`.

    python benchmarks/startup.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from app.main import FRAMES
from tests.support import command
from tests.support.terminal import Terminal

SIZE = (120, 40)
LIVE = b"\x1b]22;"
"""The shape of the pointer, which Textual sets just before its first frame; no skeleton does."""
WELCOME = b"What should I do?"
"""What the empty conversation says."""
EMPTY = """
from textual.app import App
from textual.widgets import Static

class Empty(App):
    def compose(self):
        yield Static("READY")

Empty().run()
"""
KEY = "\N{CJK UNIFIED IDEOGRAPH-9F8D}"


def bare(env: dict[str, str], folder: Path) -> dict[str, float]:
    began = time.perf_counter()
    subprocess.run([*PYTHON, "-c", "pass"], env=env, cwd=folder, check=True)
    return {"bare": time.perf_counter() - began}


def empty(env: dict[str, str], folder: Path) -> dict[str, float]:
    with Terminal([*PYTHON, "-c", EMPTY], env | {"TEXTUAL_FPS": FRAMES}, folder, SIZE) as terminal:
        began = time.perf_counter()
        terminal.until(b"READY")
        return {"empty": time.perf_counter() - began}


def hermes(env: dict[str, str], folder: Path) -> dict[str, float]:
    """The moments of one start. A frame counts when status bar and prompt are on the screen."""
    with Terminal([*command.HERMES, "--model", "demo"], env, folder, SIZE) as terminal:
        began = time.perf_counter()
        terminal.until(lambda: bool(terminal.painted))
        first = time.perf_counter() - began
        terminal.press(KEY)
        terminal.until(LIVE)
        since = terminal.painted.find(LIVE)
        terminal.until(
            lambda: all(terminal.painted.find(part, since) >= 0 for part in (b"hermes", "❯".encode()))
        )
        live = time.perf_counter() - began
        terminal.until(KEY.encode(), since=since)
        return {"skeleton": first, "live": live, "usable": time.perf_counter() - began}


def panes_mounted(env: dict[str, str], folder: Path) -> dict[str, float]:
    """A start in which nobody types."""
    with Terminal([*command.HERMES, "--model", "demo"], env, folder, SIZE) as terminal:
        began = time.perf_counter()
        terminal.until(WELCOME)
        return {"complete": time.perf_counter() - began}


PYTHON = command.HERMES[:-2]
"""The interpreter and its flags; the same for every case."""
CASES: tuple[Callable[[dict[str, str], Path], dict[str, float]], ...] = (bare, empty, hermes, panes_mounted)


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        env = command.environment(folder / "home")
        for number in range(-1, args.rounds):  # the first round only fills caches
            for case in CASES:
                for what, seconds in case(env, folder / "work").items():
                    if number >= 0:
                        times.setdefault(what, []).append(seconds * 1e3)
    middle = {what: statistics.median(each) for what, each in times.items()}
    for what, each in times.items():
        print(f"{what:9} median {middle[what]:6.1f} ms  best {min(each):6.1f} ms  worst {max(each):6.1f} ms")
    ratios = {what: middle[what] / middle["bare"] for what in middle}
    print(f"skeleton / bare  {ratios['skeleton']:.2f}  (target ≤ 1.5)")
    print(f"live / empty     {middle['live'] / middle['empty']:.2f}  (target ≤ 1.15)")
    pairs = [live / empty for live, empty in zip(times["live"], times["empty"], strict=True)]
    low, half, high = statistics.quantiles(pairs, n=4)
    print(f"  of one round   {half:.2f}, quartiles {low:.2f} and {high:.2f}")
    print(f"usable / empty   {middle['usable'] / middle['empty']:.2f}")
    print(f"complete / empty {middle['complete'] / middle['empty']:.2f}")
    print(f"empty / bare {ratios['empty']:.1f}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
