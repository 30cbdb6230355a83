"""From ⏎ on the first message to the request at the model's server, on a real terminal.

Every round starts each case once, in turn, in a folder of 100 files: the message is pressed as soon as the
still frame stands (`at once`), and one and six seconds after the start. Beside them an empty Textual
application, from start to first frame, so that a slow machine shows: what counts is the ratio to that.

Targets on a quiet machine: at once, the request leaves within 1.1 s of the start (5 × empty); after a second
it leaves within 150 ms of ⏎. CPU is that of the process until the request, from the kernel.

    python benchmarks/first_message.py [--rounds 10] [--after 0 1 6]
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

from benchmarks.model_listener import ModelListener
from benchmarks.startup import SIZE, empty
from tests.support import command
from tests.support.terminal import Terminal

FILES = 100
SEEN = "Heard it."
REPLY = (
    'data: {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": '
    f'[{{"index": 0, "delta": {{"role": "assistant", "content": "{SEEN}"}}, "finish_reason": "stop"}}]}}\n\n'
    "data: [DONE]\n\n"
).encode()
TICK = 100
"""Clock ticks of the kernel in a second."""


class Listener(ModelListener):
    """Notes when requests arrive."""

    def __init__(self) -> None:
        self.arrived: list[float] = []
        super().__init__()

    def answer(self, arrived: float, asked: bytes) -> bytes:
        self.arrived.append(arrived)
        return REPLY


def start(env: dict[str, str], folder: Path, server: Listener, after: float) -> tuple[float, float, float]:
    """Seconds from ⏎ and from the start of the process to the request, and CPU seconds until then."""
    known = len(server.arrived)
    with Terminal(command.HERMES, env, folder, SIZE) as terminal:
        terminal.until(lambda: bool(terminal.painted))
        while (left := terminal.started + after - time.monotonic()) > 0:
            terminal.read(left)
        pressed = time.monotonic()
        terminal.press("hi\r")
        while len(server.arrived) == known:
            terminal.read(0.005)
        fields = Path(f"/proc/{terminal.process.pid}/stat").read_text().rpartition(")")[2].split()
        arrived = server.arrived[known]
        terminal.until(SEEN.encode())
        return arrived - pressed, arrived - terminal.started, (int(fields[11]) + int(fields[12])) / TICK


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--after", type=float, nargs="+", default=[0.0, 1.0, 6.0])
    args = parser.parse_args()
    server = Listener()
    found: dict[float, list[tuple[float, float, float]]] = {after: [] for after in args.after}
    bare: list[float] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name) / "work"
        for number in range(FILES):
            (folder / f"part{number // 10}").mkdir(parents=True, exist_ok=True)
            (folder / f"part{number // 10}" / f"file{number}.py").write_text("value = 1\n" * 20)
        env = command.environment(Path(name) / "home", server.base_url)
        for number in range(-1, args.rounds):  # the first round only fills caches
            first_frame = empty(env, folder)["empty"]
            each = {after: start(env, folder, server, after) for after in args.after}
            if number >= 0:
                bare.append(first_frame)
                for after, times in each.items():
                    found[after].append(times)
    frame = statistics.median(bare)
    print(f"empty Textual, start to first frame: {frame * 1e3:.0f} ms")
    for after, times in found.items():
        pressed, started, cpu = (statistics.median(column) for column in zip(*times, strict=True))
        when = f"after {after:g} s" if after else "at once"
        print(
            f"{when:10} ⏎ to request {pressed * 1e3:6.0f} ms (best {min(times)[0] * 1e3:.0f}), "
            f"start to request {started:.2f} s = {started / frame:.1f} × empty, CPU {cpu:.2f} s"
        )
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
