"""A terminal that trusts nobody: all but the few sequences a full-screen program needs is a fault."""

from __future__ import annotations

import re

from rich.cells import split_graphemes

_KNOWN = re.compile(
    r"\x1b\[[0-9;:]*m"  # colours
    r"|\x1b\[(?:(?P<top>[0-9]{1,4});(?P<bottom>[0-9]{1,4}))?(?P<region>r)"  # the rows that a line feed moves
    r"|\x1b\[(?P<row>[0-9]{1,4});(?P<column>[0-9]{1,4})H|(?P<home>\x1b\[H)"
    r"|\x1b\[\?(?:25|1000|1002|1003|1004|1006|1015|1016|1049|2004|2026|2048)[hl]"
    r"|\x1b\[\?(?:2026|2048)\$p"
    r"|\x1b\[(?:>[0-9]{1,2}|<)u|\x1b\[\?[0-9]u"  # the keyboard protocol of kitty
    r"|\x1b\]22;[a-z-]{1,20}\x07"  # the shape of the pointer
    # The title of the window, in the form of Hermes alone: its state, then the session.
    r"|\x1b\]2;hermes(?: works| needs you)?(?:: [^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]{1,200})?\x07"
    r"|\x1b\]9;(?P<note>[^\x00-\x1f\x7f-\x9f]*)\x1b\\"
    r"|(?P<bell>\x07)|\x1b\[>q|\x1b\[c"
    r"|\x1b\]52;c;(?P<copied>[A-Za-z0-9+/=]*)\x07"
    r"|(?P<feed>\r?\n)"
)
_TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_FILLER = ""
"""Stands behind the first cell of a wide character."""


class PaintedScreen:
    """What a person sees after some output, and what was wrong with it."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.faults: list[str] = []
        self.notes: list[str] = []
        self.copied: list[str] = []
        self._x = self._y = 0
        self._top, self._bottom = 0, height - 1
        self._cells = [[" "] * width for _ in range(height)]

    def feed(self, output: str) -> None:
        """Take in output that ends between sequences."""
        at = 0
        while at < len(output):
            if found := _TEXT.match(output, at):
                self._write(found[0])
            elif found := _KNOWN.match(output, at):
                self._obey(found)
            else:
                self.faults.append(f"steers: {output[at : at + 24]!r}")
                at += 1
                continue
            at = found.end()

    def rows(self) -> list[str]:
        """The screen as text."""
        return ["".join(cells) for cells in self._cells]

    def text(self, x: int, y: int, width: int, height: int) -> str:
        """A part of the screen as text, its rows joined by line feeds."""
        return "\n".join("".join(cells[x : x + width]) for cells in self._cells[y : y + height])

    def _obey(self, found: re.Match[str]) -> None:
        if found["row"]:
            self._y, self._x = int(found["row"]) - 1, int(found["column"]) - 1
        elif found["home"]:
            self._y = self._x = 0
        elif found["region"]:
            self._top = int(found["top"] or 1) - 1
            self._bottom = int(found["bottom"] or self.height) - 1
            self._x = self._y = 0
        elif found["feed"] and self._y == self._bottom and self._bottom < self.height - 1:
            # What comes in below is not what was there: a terminal may give it any background.
            self._cells.insert(self._bottom + 1, ["?"] * self.width)
            del self._cells[self._top]
            self._x = 0
        elif found["feed"]:
            self._y, self._x = self._y + 1, 0
        elif found["note"] is not None:
            self.notes.append(found["note"])
        elif found["copied"] is not None:
            self.copied.append(found["copied"])

    def _write(self, text: str) -> None:
        if _TURNING.search(text):
            self.faults.append(f"turns the direction of writing: {text[:24]!r}")
        for start, end, cells in split_graphemes(text)[0]:
            if self._x + cells > self.width or self._y >= self.height:
                self.faults.append(f"beyond the edge at {self._x},{self._y}: {text[:24]!r}")
                return
            if cells:
                self._cells[self._y][self._x : self._x + cells] = [text[start:end], *[_FILLER] * (cells - 1)]
            self._x += cells
