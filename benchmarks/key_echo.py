"""From a key to its painted character, on a real terminal: idle, and while the model streams.

Each key is a character that stands nowhere else. The load is proved by the bytes painted meanwhile.
Targets: worst echo under load < 16 ms, median under load / median idle < 1.3.

    python benchmarks/key_echo.py [--keys 60] [--tokens 2000]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support import command
from tests.support.model_process import ServerProcess
from tests.support.terminal import Terminal

SCRIPT = """
WORDS = "## Part\\n\\nSome *words* of an answer with `code`, [links](http://x), again.\\n\\n- a\\n- b\\n\\n"
script = lambda request: say(WORDS * 4000, piece=4, pace={pace})
"""


def echoes(terminal: Terminal, first: int, count: int) -> list[float]:
    """Seconds from each key to its character on the terminal."""
    times = []
    for number in range(count):
        key = chr(first + number)
        since = len(terminal.painted)
        terminal.press(key)
        times.append(terminal.until(key.encode(), since=since))
        end = time.monotonic() + 0.09
        while time.monotonic() < end:
            terminal.read(0.01)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--keys", type=int, default=60)
    parser.add_argument("--tokens", type=int, default=2_000, help="tokens a second")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        script = SCRIPT.replace("{pace}", str(1 / args.tokens))
        with ServerProcess(script, folder) as server:
            env = command.environment(folder / "home", server.base_url)
            with Terminal(command.HERMES, env, folder / "work") as terminal:
                terminal.until("❯".encode())
                terminal.read(2.0)
                idle = echoes(terminal, 0x4E00, args.keys)[3:]
                terminal.press("\x15go\r")
                terminal.until(b"Part")
                before = len(terminal.painted)
                began = time.monotonic()
                loaded = echoes(terminal, 0x5E00, args.keys)[3:]
                rate = (len(terminal.painted) - before) / (time.monotonic() - began)
    for what, times in (("idle", idle), ("streaming", loaded)):
        middle, worst = statistics.median(times) * 1e3, max(times) * 1e3
        p90 = sorted(times)[int(len(times) * 0.9)] * 1e3
        print(f"{what:10} median {middle:5.1f} ms  p90 {p90:5.1f} ms  worst {worst:5.1f} ms")
    ratio = statistics.median(loaded) / statistics.median(idle)
    print(
        f"median loaded / idle {ratio:.2f} (target < 1.3); painted {rate:,.0f} bytes a second while streaming"
    )


if __name__ == "__main__":
    main()
