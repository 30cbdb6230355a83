# pyright: basic, reportMissingImports=false
"""An emulator of PyPI behind lines of JSON; run by the Python of the folder in which it is installed.

`["feed", base64]` is answered with what the emulator replies, `["rows"]` with its screen, `["size", c, r]`
with null.
"""

import base64
import codecs
import json
import sys


class Pyte:
    def __init__(self, columns, rows):
        import pyte

        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.said = ""
        self.screen.write_process_input = self._hear  # pyright: ignore

    def _hear(self, text):
        self.said += text

    def feed(self, data):
        self.stream.feed(data)
        said, self.said = self.said, ""
        return said.encode()

    def rows(self):
        return list(self.screen.display)

    def size(self, columns, rows):
        self.screen.resize(rows, columns)


class Avt:
    def __init__(self, columns, rows):
        import avt

        self.terminal = avt.Vt()
        self.terminal.resize(columns, rows)
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, data):
        self.terminal.feed_str(self.decode(data))
        return b""

    def rows(self):
        return ["".join(cell.char for cell in line) for line in self.terminal.view()]

    def size(self, columns, rows):
        self.terminal.resize(columns, rows)


class Ghostty:
    def __init__(self, columns, rows):
        import pyghostty

        self.terminal = pyghostty.Terminal(columns, rows)
        self.said = b""
        self.terminal.on_reply(self._hear)

    def _hear(self, data):
        self.said += data

    def feed(self, data):
        self.terminal.feed(data)
        said, self.said = self.said, b""
        return said

    def rows(self):
        return self.terminal.text().split("\n")

    def size(self, columns, rows):
        self.terminal.resize(columns, rows)


def main():
    emulator = {"pyte": Pyte, "pyavt": Avt, "pyghostty": Ghostty}[sys.argv[1]](*map(int, sys.argv[2:]))
    for line in sys.stdin:
        what, *words = json.loads(line)
        if what == "feed":
            answer = base64.b64encode(emulator.feed(base64.b64decode(words[0]))).decode()
        else:
            answer = emulator.rows() if what == "rows" else emulator.size(*words)
        print(json.dumps(answer), flush=True)


main()
