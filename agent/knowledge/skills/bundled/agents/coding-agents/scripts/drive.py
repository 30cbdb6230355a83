"""Run a program on a pseudo terminal, type into it, and print what it shows.

drive.py [--send TEXT]… [--until REGEX] [--seconds N] [--quiet N] -- COMMAND [ARGUMENTS]

Each --send is typed with a return once the program has been quiet. Ends when the pattern of --until shows up
after the last one was typed, when the program ends, or when time is over (exit code 124).
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from fcntl import ioctl

ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])"
)
KEPT = 200_000
ROWS, COLUMNS = 50, 140


def plain(data: bytes) -> str:
    """Return the visible text without escape sequences; an overwritten line has its last content."""
    text = ESCAPES.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n")
    lines = [line.rsplit("\r", 1)[-1] for line in text.split("\n")]
    shown = "\n".join(line.rstrip() for line in lines)
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "", re.sub(r"\n{3,}", "\n\n", shown)).strip()


def end(child: int) -> int:
    """Stop the child and all processes it started; return its exit code, negative for a signal."""
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        try:
            os.killpg(child, number)
        except ProcessLookupError:
            pass
        time.sleep(0.5)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--send", action="append", default=[])
    parser.add_argument("--until", type=re.compile)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--quiet", type=float, default=2, help="seconds without output before typing")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("name the command after --")
    child, terminal = pty.fork()
    if child == 0:
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
            os._exit(127)
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    shown, waiting = b"", list(options.send)
    deadline, last, typed = time.monotonic() + options.seconds, time.monotonic(), 0
    outcome = 124
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if ready:
            try:
                data = os.read(terminal, 65_536)
            except OSError:
                data = b""
            if not data:
                outcome = 0
                break
            shown = (shown + data)[-KEPT:]
            typed = min(typed, len(shown))
            last = time.monotonic()
        elif waiting and time.monotonic() - last > options.quiet:
            typed = len(shown)
            os.write(terminal, waiting.pop(0).encode() + b"\r")
            last = time.monotonic()
        if options.until and not waiting and options.until.search(plain(shown[typed:])):
            outcome = 0
            break
    code = end(child)
    print(plain(shown))
    print(f"[{'time is over' if outcome else 'done'}; exit code {code}]", file=sys.stderr)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
