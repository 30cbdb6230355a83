"""Keys typed into a program that has just begun: from each key to its painted character.

In every start keys follow each other as fast as a held key repeats, from the first live picture on: while
conversation and panes are put in place (which waits two seconds for a pause in typing), while the engine is
read, while the session is opened. What counts is the worst key: whatever holds the event loop is felt there.

Target: worst < 30 ms. On a shared machine run it as `chrt -f 40 python …`.

    python benchmarks/first_keys.py [--starts 12] [--seconds 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support import command
from tests.support.terminal import Terminal

SIZE = (120, 40)
LIVE = b"\x1b]22;"
"""The shape of the pointer, which Textual sets just before its first frame; no skeleton does."""
FRAME = (b"hermes", "❯".encode())
"""What the first frame shows."""
PAUSE = 0.03
"""Seconds between a painted character and the next key."""
FIRST, COUNT = 0x410, 100
"""Characters that stand nowhere else; at most as many as fit on one line of the prompt."""


def start(env: dict[str, str], folder: Path, seconds: float) -> list[tuple[float, float]]:
    """Moment (in seconds after the first live picture) and echo (seconds) of each key of one start."""
    with Terminal([*command.HERMES, "--model", "demo"], env, folder, SIZE) as terminal:
        terminal.until(LIVE)
        since = terminal.painted.find(LIVE)
        terminal.until(lambda: all(terminal.painted.find(part, since) >= 0 for part in FRAME))
        began = time.monotonic()
        echoes = []
        for number in range(COUNT):
            at, since = time.monotonic() - began, len(terminal.painted)
            if at > seconds:
                break
            key = chr(FIRST + number)
            terminal.press(key)
            echoes.append((at, terminal.until(key.encode(), since=since)))
            pause(terminal)
        return echoes


def pause(terminal: Terminal) -> None:
    """Read what is painted for a while, as a terminal does."""
    end = time.monotonic() + PAUSE
    while (left := end - time.monotonic()) > 0:
        terminal.read(left)


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--starts", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    starts: list[list[tuple[float, float]]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        env = command.environment(folder / "home")
        for number in range(-1, args.starts):  # the first start only fills caches
            echoes = start(env, folder / "work", args.seconds)
            if number >= 0:
                starts.append(echoes)
    times = sorted(echo * 1e3 for echoes in starts for _at, echo in echoes)
    for part in (0.5, 0.9, 0.99):
        print(f"p{part * 100:.0f} {times[int(len(times) * part)]:6.1f} ms", end="  ")
    print(f"worst {times[-1]:6.1f} ms of {len(times)} keys in {len(starts)} starts  (target < 30 ms)")
    worst = sorted(max(echo for _at, echo in echoes) * 1e3 for echoes in starts)
    print(f"worst key of a start: median {statistics.median(worst):.1f} ms, best {worst[0]:.1f} ms")
    late = sorted((at, echo) for echoes in starts for at, echo in echoes if echo > 0.03)
    print("over 30 ms:", ", ".join(f"{echo * 1e3:.0f} at {at:.2f} s" for at, echo in late) or "none")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
