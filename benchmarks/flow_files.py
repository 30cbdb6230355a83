"""How many files of ours a key passes on its way to the screen, and a piece of an answer on its way there.

The program runs on a real terminal with a profile function in each thread. From the first call in the file
where a flow begins until the bytes with its character are written, the files of all calls are noted; those
that took part each time are counted, so that clocks which tick in between are not.

Targets: a key in under 10 files, a piece of an answer in under 20.

    python benchmarks/flow_files.py [--times 12]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support import command
from tests.support.model_process import ServerProcess
from tests.support.terminal import Terminal

FLOWS = {
    "key": ("app/tui/terminal/tty_input.py", 0x4E00, 10),
    "answer": ("agent/model/transport/answer.py", 0x5200, 20),
}
"""Each flow: the file it begins in, its first character, and the target."""

PROGRAM = f"""
import atexit, json, os, sys, threading, time
ROOT = {str(command.ROOT)!r} + os.sep
sys.path.insert(0, ROOT)
FLOWS, TIMES = json.loads(os.environ["FLOWS"]), int(os.environ["TIMES"])
OURS = tuple(ROOT + floor + os.sep for floor in ("app", "widgets", "agent", "tools", "themes"))
begins = {{ROOT + file: name for name, (file, _, _) in FLOWS.items()}}
ends = {{chr(first + number): name for name, (_, first, _) in FLOWS.items() for number in range(TIMES)}}
OUT, APART = ROOT + "app/tui/terminal/tty_output.py", 0.1
last, open_now, found = dict.fromkeys(FLOWS, 0.0), {{}}, {{name: [] for name in FLOWS}}

def note(frame, event, _argument):
    if event != "call":
        return
    file = frame.f_code.co_filename
    if not file.startswith(OURS):
        return
    if file in begins:
        name, now = begins[file], time.monotonic()
        if now - last[name] > APART:
            open_now[name] = {{}}
        last[name] = now
    for seen in list(open_now.values()):
        seen.setdefault(file[len(ROOT):])
    if file == OUT and frame.f_code.co_name == "write":
        for value in list(frame.f_locals.values()):
            text = value if isinstance(value, str) else ""
            for character in [each for each in ends if each in text]:
                name = ends.pop(character)
                if name in open_now:
                    found[name].append(list(open_now.pop(name)))

def tell():
    sys.setprofile(None)
    with open(os.environ["FOUND"], "w") as file:
        json.dump(found, file)

atexit.register(tell)
threading.setprofile(note)
sys.setprofile(note)
from hermes_launcher import main
sys.exit(main())
"""

SCRIPT = """
TEXT = "".join(f" {chr(0x5200 + number)}" for number in range(%d))
script = lambda request: say(TEXT, piece=2, pace=0.5)
"""


def measure(times: int) -> dict[str, list[str]]:
    """By flow: the files that took part each time, in the order in which they did."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for inside in ("work", "home"):
            (folder / inside).mkdir(mode=0o700)
        out = folder / "found.json"
        with ServerProcess(SCRIPT % times, folder) as server:
            env = command.environment(folder / "home", server.base_url)
            env |= {"FLOWS": json.dumps(FLOWS), "TIMES": str(times), "FOUND": str(out)}
            program = [sys.executable, "-I", "-c", PROGRAM]
            with Terminal(program, env, folder / "work") as terminal:
                terminal.until("❯".encode())
                watch(terminal, 12.0)
                for number in range(times):
                    terminal.press(chr(FLOWS["key"][1] + number))
                    watch(terminal, 0.4)
                terminal.press("\x15go\r")
                terminal.until(chr(FLOWS["answer"][1] + times - 1).encode())
                watch(terminal, 1.0)
                while terminal.process.poll() is None:
                    terminal.press("\x04")
                    watch(terminal, 1.0)
        found = json.loads(out.read_text())
    return {
        flow: [file for file in runs[-1] if all(file in run for run in runs)] if runs else []
        for flow, runs in found.items()
    }


def watch(terminal: Terminal, seconds: float) -> None:
    """Read what is painted for a while, as a terminal does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.read(0.01)


def main() -> None:
    """Print the files of each flow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=12, help="keys and pieces that are followed")
    for flow, files in measure(parser.parse_args().times).items():
        print(f"{flow}: {len(files)} files (target: under {FLOWS[flow][2]})")
        for file in files:
            print(f"  {file}")


if __name__ == "__main__":
    main()
