"""Runs an agent and writes down both directions: `python tee.py LOG COMMAND…`.

Each line of the log is one letter and the line: `>` to the agent, `<` from it.
"""

import os
import subprocess
import sys
import threading

log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
assert child.stdin is not None and child.stdout is not None


def pump(source, sink, mark, close):
    for line in iter(source.readline, b""):
        os.write(log, mark + line if line.endswith(b"\n") else mark + line + b"\n")
        try:
            sink.write(line)
            sink.flush()
        except OSError:
            break
    if close:
        sink.close()


entering = threading.Thread(target=pump, args=(sys.stdin.buffer, child.stdin, b">", True), daemon=True)
entering.start()
pump(child.stdout, sys.stdout.buffer, b"<", False)
os._exit(child.wait() & 255)  # at once: a thread still reads stdin
