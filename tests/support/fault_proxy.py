"""A faulty way to a server: over its input and output as a program of its own, over TCP as an object.

Started as `python -IS fault_proxy.py CONTROL COMMAND …`. CONTROL holds `FAULT AT`: what happens to which of
all messages, counted from 1 in the order in which they pass, whichever way they go. It is read at the start.
"""

import os
import signal
import subprocess
import sys
import threading
import time

FAULTS = ("cut", "delay", "garbage", "reorder", "kill", "half")
"""`cut` closes both ways, `delay` holds a message longer than a call may take, `garbage` puts noise in its
place, `reorder` sends it after the next one, `kill` ends the server the hard way, `half` sends a part."""
HELD = 3.0
"""Seconds a message is delayed."""
SWAPPED = 0.3
"""Seconds after which a message that waits for the next one goes by itself."""
NOISE = b'\x00\xff{"jsonrpc": "2.0", "id": [}\n'


class Passing:
    """Counts messages of both ways and says what becomes of each."""

    def __init__(self, fault: str, at: int) -> None:
        self._fault, self._at, self._count = fault, at, 0
        self._lock = threading.Lock()

    def fate(self) -> str:
        """The fault of the next message; empty for one that passes."""
        with self._lock:
            self._count += 1
            return self._fault if self._count == self._at else ""


def pump(source: object, sink: object, passing: Passing, server: "subprocess.Popen[bytes]") -> None:
    """Hand on lines until there are no more."""
    while line := source.readline():  # type: ignore[attr-defined]
        fate = passing.fate()
        match fate:
            case "cut":
                server.kill()
                os._exit(0)
            case "kill":
                server.kill()
                os.kill(os.getpid(), signal.SIGKILL)
            case "half":
                write(sink, line[: len(line) // 2])
                server.kill()
                os._exit(1)
            case "delay":
                time.sleep(HELD)
            case "garbage":
                line = NOISE
            case "reorder":
                threading.Timer(SWAPPED, write, (sink, line)).start()
                continue
        write(sink, line)
    sink.close()  # type: ignore[attr-defined]


def write(sink: object, data: bytes) -> None:
    try:
        sink.write(data)  # type: ignore[attr-defined]
        sink.flush()  # type: ignore[attr-defined]
    except (OSError, ValueError):
        os._exit(0)


def main() -> None:
    """Stand between our input and output and the server that is named."""
    with open(sys.argv[1], encoding="ascii") as control:
        fault, at = control.read().split()
    server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    passing = Passing(fault, int(at))
    back = threading.Thread(
        target=pump, args=(server.stdout, sys.stdout.buffer, passing, server), daemon=True
    )
    back.start()
    pump(sys.stdin.buffer, server.stdin, passing, server)
    back.join(2)


if __name__ == "__main__":
    main()
