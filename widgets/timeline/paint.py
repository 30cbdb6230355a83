"""Timeline rows as text: lines, glyph, words, tags; figures and age at the right edge."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.text import Text

from themes.states import IN_USE, state_of
from tools.text.words import ago, plural
from widgets.rows.row_text import fit, one_line
from widgets.timeline.layout import ENGINE, Drawing, DrawnLine, NodeRow, NodeTree

LANE_ROLES = ("accent", "keyword", "number", "function", "string", "warning")
"""The colours of lanes from left to right, repeated."""
MOST_LANES = 8
"""The maximum number of lanes drawn left of a row; deeper rows show `⋯`."""


def rails(line: DrawnLine, most: int = MOST_LANES) -> list[tuple[str, str]]:
    """Return the characters left of a row: two cells and a role per lane, the farthest first."""
    first = max(line.lane - most, 0)
    drawn = [("⋯ ", "dim")] if first else []
    for lane in range(first + bool(first), line.lane):
        if line.joins and lane == line.lane - 1:
            # The corner belongs to the lane that begins, the straight part to the lane that continues.
            corner = "├─" if line.continues(lane) else "╰─"
            drawn.append((corner, lane_role(line.lane)))
        else:
            drawn.append(("│ " if line.continues(lane) else "  ", lane_role(lane)))
    return drawn


def lane_role(lane: int) -> str:
    """Return the colour role of a lane."""
    return LANE_ROLES[lane % len(LANE_ROLES)]


GLYPHS = {"user": "●", "assistant": "○", "tool": "·", "notice": "┊", "compaction": "≡", "system": "◌"}
"""The glyph for each kind of node."""
OUTCOMES = ("exit", "failed", "denied", "interrupted")
"""The outcomes of calls that went wrong."""
AGE_CELLS = 7
LEAST_WORDS = 12
"""The minimum cells for the words of a row."""
GOOD_WORDS = 28
"""Cells below which the words get the room of the number of calls."""
MOST_STEPS = 64
"""The maximum number of steps of a row whose lines are counted."""
_BRACES = str.maketrans("", "", '{}"')
_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)(?:"(\s*:)?)?')
"""A text in JSON that may end in the middle, and whether it is a name."""
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_MEANT = {"n": "\n", "t": " ", "r": "\n", "b": "", "f": " "}

Ink = Callable[..., Style]
"""A function that returns the style of a role; it takes `bold`."""


@dataclass(frozen=True, slots=True)
class PaintContext:
    """The options for drawing rows, besides the tree."""

    ink: Ink
    now: float
    """Seconds since the epoch."""
    counts: Mapping[int, tuple[int, int]]
    """Lines added and removed by a step, as far as they are known."""
    compared: int | None = None
    """The node, by its id, from which a comparison begins."""
    found: re.Pattern[str] | None = None
    """The pattern of the search; None without a search."""
    match: Style | None = None


def draw_row(drawing: Drawing, number: int, width: int, around: PaintContext) -> Text:
    """Return one row of at most `width` cells, with the cursor's gutter in front."""
    line, tree, ink = drawing.lines[number], drawing.tree, around.ink
    row = tree.rows[line.node]
    lead = Text(" ")
    for text, role in rails(line):
        lead.append(text, ink(role))
    lead.append_text(_glyph(tree, line, ink)).append(" ")
    tags = _tags(drawing, number, around)
    room = width - lead.cell_len - 2
    right = _right(drawing, line, around, calls=True)
    if room - right.cell_len - tags.cell_len < GOOD_WORDS:
        right = _right(drawing, line, around, calls=False)
    right = fit(right, max(room - LEAST_WORDS, 0))
    room -= right.cell_len
    words = _words(row, tree.label(line.node), bool(tree.on_path[line.node]), ink)
    if around.found is not None and around.match is not None:
        for found in around.found.finditer(words.plain):
            words.stylize(around.match, *found.span())
    kept = min(words.cell_len, GOOD_WORDS)
    tags = fit(tags, max(room - kept, room // 3))
    words = fit(words, max(room - tags.cell_len, 0))
    left = Text.assemble(lead, words, tags)
    gap = max(width - 1 - left.cell_len - right.cell_len, 0)
    return Text.assemble(left, " " * gap, right, " ")


def _glyph(tree: NodeTree, line: DrawnLine, ink: Ink) -> Text:
    row = tree.rows[line.node]
    if row.outcome in OUTCOMES:
        glyph, role, *_ = state_of(row.outcome)
        return Text(glyph, ink(role))
    bold = bool(tree.on_path[line.node])
    return Text(GLYPHS.get(row.kind, "·"), ink(lane_role(line.lane), bold=bold))


def _words(row: NodeRow, label: str, on_path: bool, ink: Ink) -> Text:
    role = "text" if on_path else "dim"
    if row.kind == "tool":
        if label := shown_path(label):
            return Text(label, ink(role))
        shown = Text(one_line(row.tool) or "a tool", ink(role))
        return shown.append(f"  {one_line(first_words(row.text))}", ink("dim"))
    text = one_line(row.text)
    if row.kind == "user" and row.origin != ENGINE:
        return Text(text or "(no words)", ink("user" if on_path else "dim"))
    if row.kind == "system":
        return Text("the beginning" if row.parent is None else "prompt or tools changed", ink("dim"))
    if not text:
        calls = plural(row.calls, "call") if row.calls else "no words"
        return Text(f"({calls})", ink("dim"))
    return Text(text, ink(role if row.kind == "assistant" else "dim"))


def first_words(result: str) -> str:
    """Return the first line of text in a JSON result, which may be cut off; without text its numbers."""
    if not result.startswith(("{", "[")):
        return result
    for found in _STRING.finditer(result):
        # A character outside the first 65,536 is written as two; what is left of one alone is not text.
        text = _ESCAPE.sub(_unescape, found[1]).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if not found[2] and (words := text.strip()):
            return words.partition("\n")[0]
    return result.translate(_BRACES).strip()


def _unescape(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _MEANT.get(code, code)


def _tags(drawing: Drawing, number: int, around: PaintContext) -> Text:
    tree, ink, tags = drawing.tree, around.ink, Text()
    for node in drawing.carried.get(number, ()):
        for name in tree.tips.get(node, ()):
            current = name == tree.branch
            glyph, role = (IN_USE, "accent") if current else ("◇", lane_role(drawing.lines[number].lane))
            tags.append(f"  {glyph} {one_line(name, 60)}", ink(role, bold=current))
        if tag := tree.tags.get(node):
            tags.append("  ★" if tag.bookmarked else "", ink("warning"))
            tags.append(f"  [{one_line(tag.label)}]" if tag.label else "", ink("warning"))
    if around.compared is not None and tree.rows[drawing.lines[number].node].id == around.compared:
        tags.append("  ↔ compare from here", ink("accent", bold=True))
    return tags


def _right(drawing: Drawing, line: DrawnLine, around: PaintContext, *, calls: bool) -> Text:
    """Return the figures and age of a node or folded turn: `▸ 12 calls · ± 3 files +40 −7 2 h`."""
    tree, ink = drawing.tree, around.ink
    parts: list[Text] = []
    if line.fold == "closed":
        parts.append(Text(plural(tree.size[line.node], "message"), ink("dim")))
    elif line.fold == "folded" and tree.calls[line.node] and calls:
        parts.append(Text(plural(tree.calls[line.node], "call"), ink("dim")))
    steps = steps_of(tree, line)
    if steps:
        parts.append(_changes(tree.files(steps), steps, around))
    figures = Text(" · ", ink("dim")).join(parts)
    fold = {"folded": "▸ ", "closed": "▸ ", "open": "▾ "}.get(line.fold, "")
    when = f"{ago(around.now - tree.rows[line.node].created):>{AGE_CELLS}}"
    return Text(fold, ink("dim")).append_text(figures).append(when, ink("dim"))


def steps_of(tree: NodeTree, line: DrawnLine) -> Sequence[int]:
    """Return the steps of a row; those of the whole turn if it is folded."""
    if line.fold == "folded":
        return tree.turn_steps.get(line.node, ())
    return tree.steps.get(line.node, ())


def _changes(files: list[str], steps: Sequence[int], around: PaintContext) -> Text:
    ink = around.ink
    name = shown_path(files[0]).rpartition("/")[2] if len(files) == 1 else plural(len(files), "file")
    text = Text("± ", ink("added")).append(fit(Text(name), 24).plain, ink("dim"))
    known = [around.counts.get(step) for step in steps]
    if len(steps) <= MOST_STEPS and None not in known:
        added, removed = (sum(each) for each in zip(*filter(None, known), strict=True))
        text.append(f" +{added:,}" if added else "", ink("added"))
        text.append(f" −{removed:,}" if removed else "", ink("removed"))
    return text


def shown_path(path: str) -> str:
    """Return a displayable path: bytes that are not text become `?`."""
    return one_line(path.encode("utf-8", "replace").decode("utf-8"))
