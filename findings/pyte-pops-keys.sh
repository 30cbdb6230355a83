#!/bin/sh
# pyte prints the last letter of a sequence with `<` or `=` that it does not know (here the one that gives the
# Kitty keyboard protocol back), though it swallows the same one with `>`, which asks for that protocol.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q pyte==0.8.2
"$folder/env/bin/python" - <<'PYTHON'
import pyte
from importlib.metadata import version

screen = pyte.Screen(20, 1)
stream = pyte.ByteStream(screen)
shown = {}
for sequence in (b"\x1b[>1u", b"\x1b[<u", b"\x1b[=1;1u"):
    screen.reset()
    stream.feed(sequence + b"|")
    shown[sequence] = screen.display[0].strip()
print("pyte", version("pyte"))
for sequence, text in shown.items():
    print(sequence, "shows", repr(text))
assert shown == {b"\x1b[>1u": "|", b"\x1b[<u": "u|", b"\x1b[=1;1u": "1;1u|"}, "this has changed"
PYTHON
