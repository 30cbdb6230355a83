"""Parsing of Markdown into a flat list of blocks, as far as documents need it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

HEADING = re.compile(r"(#{1,6})\s+(.*)")
BULLET = re.compile(r"(\s*)([-*+]|\d+[.)])\s+(.*)")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)\s*$")
INLINE = re.compile(r"(\*\*.+?\*\*|`.+?`|\*.+?\*|_.+?_(?!\w))")


@dataclass
class Block:
    """`kind` is heading, text, bullet, number, code, table, image or rule; `level` from 1."""

    kind: str
    text: str = ""
    level: int = 1
    rows: list[list[str]] = field(default_factory=list)


def spans(text: str) -> list[tuple[str, str]]:
    """Return the pieces of a line, each with its style: plain, bold, italic or code."""
    found = []
    for piece in INLINE.split(text):
        if piece.startswith("**") and piece.endswith("**") and len(piece) > 4:
            found.append((piece[2:-2], "bold"))
        elif piece.startswith("`") and piece.endswith("`") and len(piece) > 2:
            found.append((piece[1:-1], "code"))
        elif len(piece) > 2 and piece[0] in "*_" and piece[-1] == piece[0]:
            found.append((piece[1:-1], "italic"))
        elif piece:
            found.append((re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", r"\1 (\2)", piece), "plain"))
    return found


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    lines = text.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("```"):
            code = []
            while at < len(lines) and not lines[at].startswith("```"):
                code.append(lines[at])
                at += 1
            at += 1
            found.append(Block("code", "\n".join(code)))
        elif not line.strip():
            found.append(Block("gap"))
        elif match := HEADING.match(line):
            found.append(Block("heading", match[2].strip(), len(match[1])))
        elif re.fullmatch(r"\s*([-*_])(\s*\1){2,}\s*", line):
            found.append(Block("rule"))
        elif match := IMAGE.match(line.strip()):
            found.append(Block("image", match[2]))
        elif line.lstrip().startswith("|") and at < len(lines) and re.match(r"\s*\|?[\s:|-]+$", lines[at]):
            rows = [cells(line)]
            at += 1
            while at < len(lines) and lines[at].lstrip().startswith("|"):
                rows.append(cells(lines[at]))
                at += 1
            found.append(Block("table", rows=rows))
        elif match := BULLET.match(line):
            kind = "number" if match[2][0].isdigit() else "bullet"
            found.append(Block(kind, match[3], len(match[1]) // 2 + 1))
        elif found and found[-1].kind in ("text", "bullet", "number"):
            found[-1].text += f" {line.strip()}"
        else:
            found.append(Block("text", line.strip()))
    return [block for block in found if block.kind != "gap"]
