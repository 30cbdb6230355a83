"""Beginnings of markdown lines: what opens a block, and what ends it."""

from __future__ import annotations

import re
from typing import Literal

BLANK = " \t\r\v\f\n"
FENCE = re.compile(r"(`{3,})([^`]*)$|(~{3,})(.*)$")
HTML_BLOCK = re.compile(
    r"</?(?:address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir"
    r"|div|dl|dt|fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li"
    r"|link|main|menu|menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot"
    r"|th|thead|title|tr|track|ul)(?=\s|/?>|$)",
    re.I,
)
HTML_TAG = re.compile(
    r"(?:<[A-Za-z][A-Za-z0-9-]*(?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^\s\"'=<>`]+|'[^']*'|\"[^\"]*\"))?)*\s*/?>"
    r"|</[A-Za-z][A-Za-z0-9-]*\s*>)\s*$"
)

_HTML_UNTIL = (
    (
        re.compile(r"<(?:script|pre|style|textarea)(?=\s|>|$)", re.I),
        re.compile(r"</(?:script|pre|style|textarea)>", re.I),
    ),
    (re.compile(r"<!--"), re.compile(r"-->")),
    (re.compile(r"<\?"), re.compile(r"\?>")),
    (re.compile(r"<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(r"<![A-Za-z]"), re.compile(r">")),
)
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_RULE = re.compile(r"(?:\*[ \t]*){3,}$|(?:-[ \t]*){3,}$|(?:_[ \t]*){3,}$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_MARKER = re.compile(r"([-*+]|\d{1,9}[.)])([ \t]+|$)")
_BAR = re.compile(r"(?<!\\)\|")
_DELIMITERS = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")

Within = Literal["", "paragraph", "other"]
"""What a line comes after: a blank line, text that could go on, or another open block."""


def is_blank(line: str) -> bool:
    """Whether nothing stands on the line. Blanks of other scripts are text."""
    return not line.strip(BLANK)


def shape(line: str) -> tuple[int, str]:
    """The columns a line is indented by, tabs counted to stops of four, and the rest of it."""
    rest = line.lstrip(" \t")
    lead = line[: len(line) - len(rest)]
    return len(lead.expandtabs(4)) if "\t" in lead else len(lead), rest


def outdent(line: str, columns: int) -> str:
    """`line` without its first `columns` columns, as far as they are blank."""
    if len(line) >= columns and not line[:columns].strip(" "):
        return line[columns:]
    indent, rest = shape(line)
    return " " * (indent - min(columns, indent)) + rest


def opening(line: str, within: Within = "") -> str:
    """The kind of block a line opens; `paragraph` where it is just text (or goes on with it)."""
    indent, rest = shape(line)
    if indent >= 4:
        return "paragraph" if within == "paragraph" else "fence"
    first = rest[:1]
    if first == ">":
        return "quote"
    if first == "#":
        return "heading" if _HEADING.match(rest) else "paragraph"
    if first in ("`", "~") and first:
        return "fence" if FENCE.match(rest) else "paragraph"
    if first in ("-", "*", "_") and first and _RULE.match(rest):
        return "rule"
    if first == "<":
        return "html" if _opens_html(rest, within) else "paragraph"
    if marker := _MARKER.match(rest):
        interrupts = bool(rest[marker.end() :]) and (not first.isdigit() or int(marker[1][:-1]) == 1)
        return "list" if within != "paragraph" or interrupts else "paragraph"
    return "paragraph"


def _opens_html(rest: str, within: Within) -> bool:
    if HTML_BLOCK.match(rest) or any(start.match(rest) for start, _ in _HTML_UNTIL):
        return True
    return not within and HTML_TAG.match(rest) is not None


def html_end(rest: str) -> re.Pattern[str] | None:
    """What ends the html block that `rest` opens; None stands for a blank line."""
    return next((end for start, end in _HTML_UNTIL if start.match(rest)), None)


def underlines(line: str) -> bool:
    """Whether the line makes a heading of the paragraph above it."""
    return _UNDERLINE.match(line) is not None


def delimits(line: str, header: str) -> bool:
    """Whether the line is the row below the header of a table."""
    is_row = "|" in header and _DELIMITERS.match(line) is not None
    return is_row and _columns(line) == _columns(header)


def _columns(row: str) -> int:
    row = row.strip()
    return len(_BAR.findall(row.removeprefix("|").removesuffix("|"))) + 1


def closes(line: str, mark: str) -> bool:
    """Whether the line closes the fence that `mark` opened."""
    indent, rest = shape(line)
    rest = rest.rstrip()
    return indent < 4 and len(rest) >= len(mark) and not rest.strip(mark[0])


def item(line: str) -> tuple[str, int, int] | None:
    """The list marker of a line: its type, its number, and the column where the text of the item starts."""
    indent, rest = shape(line)
    marker = _MARKER.match(rest) if indent < 4 else None
    if marker is None or _RULE.match(rest):
        return None
    sign, gap = marker.groups()
    lead = indent + len(sign)
    room = len((" " * lead + gap).expandtabs(4)) - lead
    if room > 4 or marker.end() == len(rest):
        room = 1
    number = int(sign[:-1]) if len(sign) > 1 else 0
    return sign[-1], number, lead + room


def ends_in_text(line: str) -> bool:
    """Whether what stands behind the markers of lists and quotes is text that may go on."""
    indent, rest = shape(line)
    while rest.startswith(">") or (_MARKER.match(rest) and not _RULE.match(rest)):
        marker = _MARKER.match(rest)
        indent, rest = shape(rest[1:] if marker is None else rest[len(marker[1]) :])
        if indent > 4:
            return False
    return bool(rest) and opening(rest, "other") == "paragraph"
