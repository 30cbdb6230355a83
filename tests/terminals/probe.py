# pyright: basic, reportMissingImports=false
"""Whether a terminal prints sequences that it was sent: `probe.py RECORD RESULT`, run inside the terminal.

Each distinct sequence of the record is played with the cursor at a known place, followed by a cursor report.
"""

import os
import re
import select
import sys
import termios
import tty

STRINGS = rb"\x1b[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)"
PRIVATE = rb"\x1b\[[<=>?][0-9;:]*[ -/]*[@-~]|\x1b\[[0-9;:]*[ -/]+[@-~]|\x1b\[[0-9;]*:[0-9;:]*m|\x1b\[[0-9;]*t"
LEFT_OUT = re.compile(rb"\x1b\[\?(?:1049|47|1047|1048|6|2026|25)[hl]|\x1b\]52;|\x1bP\x1b\]")
BACK = b"\x1b[?1000;1003;1006;2004;1004;2031;2048;1016;1039l\x1b[?7h"


def answers(seconds):
    data = b""
    while select.select([0], [], [], seconds)[0]:
        data += os.read(0, 4096)
        if re.search(rb"\x1b\[\d+;\d+R", data):
            break
    return re.findall(rb"\x1b\[(\d+);(\d+)R", data)


def main():
    with open(sys.argv[1], "rb") as file:
        record = file.read()
    shapes = {}
    for found in re.findall(rb"(?:%s)|(?:%s)" % (STRINGS, PRIVATE), record, re.DOTALL):
        if not LEFT_OUT.match(found):
            shapes.setdefault(
                re.sub(rb"\d+", b"0", found)[:6] + found[-1:] if found[1:2] in b"]P" else found, found
            )
    before = termios.tcgetattr(0)
    lines = []
    try:
        tty.setraw(0)
        os.write(1, b"\x1b[2J\x1b[5;5H\x1b[6n")
        if not answers(2.0):
            lines = ["no cursor report"]
        for each in shapes.values() if not lines else ():
            os.write(1, b"\x1b[5;5H" + each + b"\x1b[6n")
            got = answers(1.0)
            if got and got[-1] != (b"5", b"5"):
                lines.append(repr(each[:60]))
        os.write(1, BACK + b"\x1b[2J\x1b[H")
        answers(0.3)
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)
    with open(sys.argv[2], "w") as file:
        file.write("\n".join([f"{len(shapes)} sequences", *lines]) + "\n")


main()
