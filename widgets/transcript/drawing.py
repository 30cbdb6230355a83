"""Parts as rows: the gutter with its glyph, the text, and hints at the right edge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from themes.states import state_of
from widgets.palette import Palette, glyph_of
from widgets.transcript.diff import render_diff
from widgets.transcript.markdown import render, render_code
from widgets.transcript.parts import (
    CodePart,
    DiffPart,
    GapPart,
    HeadPart,
    MarkupPart,
    Part,
    PicturePart,
    WordsPart,
)
from widgets.transcript.wrap import CUT_AT_EDGE, TAB, Row, WideRows, expand_tabs, flat, wrap

GUTTER = 2
"""Columns of a row before its text: a glyph and a blank."""
MARGIN = 1
"""Columns of a row after its text."""
PROSE = 100
"""The largest width of prose; code, tables, diffs and heads of cards use all of the conversation."""
VERB = 8
"""Columns of the verb of a card."""


def draw(part: Part, width: int, palette: Palette, wide: WideRows = CUT_AT_EDGE) -> list[Strip]:
    """Return the rows of a part, each exactly `width` cells including the gutter; `wide` is for code."""
    room = max(width - GUTTER - MARGIN, 1)
    match part:
        case GapPart():
            return [_row(Strip([]), width, palette)]
        case PicturePart():
            return []
        case HeadPart():
            return [_row(_head(part, room, palette), width, palette, *_state(part, palette))]
        case WordsPart():
            return _words(part, width, palette)
        case MarkupPart(block=block):
            across = room if block.kind in ("fence", "table") else min(room, PROSE)
            strips = render(block, across, palette, wide)
        case CodePart(text=text, language=language):
            strips = render_code(text, language, room, palette, wide)
        case DiffPart(diff=diff, rows=rows):
            drawn = render_diff(_start(diff, rows), room, palette, wide=wide)
            strips = _fold_diff(drawn, diff, rows, palette, wide)
    return rows_of(strips, width, palette)


def rows_of(
    strips: Iterable[Strip], width: int, palette: Palette, glyph: str = " ", role: str = "text"
) -> list[Strip]:
    """Return drawn text as rows of `width` cells, with the gutter before it and blanks after it."""
    base = palette.style("text")
    gutter = [Segment(set_cell_size(glyph, 1), palette.style(role)), Segment(" ", base)]
    if (glyph, role) == (" ", "text"):
        gutter = [Segment("  ", base)]
    room = width - GUTTER
    done: list[Strip] = []
    for strip in strips:
        body = strip.crop(0, max(room, 0)) if strip.cell_length > room else strip
        row, blank = [*gutter], room
        for run in body:
            text, style, control = run
            if control:
                continue
            if style is None or not (text.isascii() and text.isprintable()):
                # A selector at the start would widen the character before it, which is counted already.
                run = Segment(flat(text).lstrip("\ufe0f"), style or base)
                blank -= run.cell_length
            else:
                blank -= len(text)
            row.append(run)
        if blank > 0:
            row.append(Segment(" " * blank, base))
        done.append(Strip(row, width - min(blank, 0)))
    return done


def fit(text: str, cells: int) -> str:
    """Return `text`, or its beginning with an ellipsis, in at most `cells` cells."""
    if cell_len(text) <= cells:
        return text
    if cells < 1:
        return ""
    return (chop_cells(text, cells - 1)[0].rstrip() if cells > 1 else "") + "…"


def _row(strip: Strip, width: int, palette: Palette, glyph: str = " ", role: str = "text") -> Strip:
    return rows_of([strip], width, palette, glyph, role)[0]


def _words(part: WordsPart, width: int, palette: Palette) -> list[Strip]:
    room = max(width - GUTTER - MARGIN, 1)
    style, dim = palette.style(part.role), palette.style("dim")
    right = fit(flat(part.right), room // 2)
    rows, folded = _wrap_words(part, min(PROSE, room - cell_len(right) - 2 if right else room), palette)
    glyph = palette.prompt_symbol if part.glyph == "❯" else part.glyph
    done: list[Strip] = []
    for number, row in enumerate(rows):
        strip = Strip(row)
        if right and number == 0:
            gap = room - strip.cell_length - cell_len(right)
            strip = Strip([*row, Segment(" " * gap, style), Segment(right, dim)])
        shown = glyph if number == 0 or part.every_row else ""
        done.append(_row(strip, width, palette, shown or " ", part.glyph_role))
    if folded is not None:
        done.append(_row(_more(folded, "line", palette), width, palette))
    return done


def _wrap_words(part: WordsPart, room: int, palette: Palette) -> tuple[list[Row], int | None]:
    """Return the shown rows of a text, and the number of completely hidden lines; None if all are shown."""
    style = palette.style(part.role)
    lines = part.text.split("\n")
    rows: list[Row] = []
    for number, line in enumerate(lines):
        label = part.label if number == 0 else ""
        # Folded text is not wrapped.
        text = line[len(label) : (part.rows + 1) * room * 2] if part.rows else line[len(label) :]
        runs = [Segment(label, palette.style("dim"))] if label else []
        is_begun = len(rows) < part.rows
        rows += wrap([*runs, Segment(expand_tabs(text, TAB), style)], room)
        if part.rows and len(rows) > part.rows:
            return rows[: part.rows], len(lines) - number - is_begun
    return rows, None


def _start(diff: str, rows: int) -> str:
    return "\n".join(diff.split("\n", rows + 8)[: rows + 8]) if rows else diff


def _fold_diff(strips: list[Strip], diff: str, rows: int, palette: Palette, wide: WideRows) -> list[Strip]:
    """Return the first rows of a diff with the number of hidden lines, unless rows do not match lines."""
    if not rows or (len(strips) <= rows + 1 and diff.count("\n") < rows + 8):
        return strips
    lines = diff.rstrip("\n").count("\n") + 1
    # Headers are no rows; as many as there are in what was drawn.
    hidden = max(lines - min(lines, rows + 8), 0) + len(strips) - rows
    return [*strips[:rows], _more(0 if wide.wrap else hidden, "", palette)]


def _more(count: int, noun: str, palette: Palette) -> Strip:
    what = f" {noun if count == 1 else noun + 's'}" if noun and count else ""
    number = f"{count:,} " if count else ""
    return Strip([Segment(f"… {number}more{what}, ⏎", palette.style("dim"))])


def _state(head: HeadPart, palette: Palette) -> tuple[str, str]:
    glyph, role, *_ = state_of(head.state)
    if head.spinner >= 0 and palette.skin.spinner:
        faces = palette.skin.spinner
        glyph = glyph_of(faces[head.spinner % len(faces)], glyph)
    return glyph, role


_FILE_TOOLS = ("read_file", "write_file", "patch")
"""Tools whose calls are named by the path of a file."""


def _head(head: HeadPart, room: int, palette: Palette) -> Strip:
    dim = palette.style("dim")
    text = palette.style("text")
    icon = palette.skin.tool_icons.get(head.tool, "")
    verb = flat(f"{icon} {head.verb}" if icon else head.verb)
    verb = fit(verb, room // 2)
    verb += " " * (VERB - cell_len(verb)) + " "
    right = fit(head.right, room // 2)
    free = room - cell_len(verb) - (cell_len(right) + 2 if right else 0)
    subject, summary = flat(head.subject), flat(head.summary)
    if summary and cell_len(subject) + 3 + cell_len(summary) > free:
        # Both are cut; the subject keeps what the summary leaves, at least half.
        kept = max(free // 2, free - 3 - cell_len(summary)) if subject else 0
        subject = fit(subject, kept)
    subject = fit(subject, free)
    joint = " · " if subject and summary else ""
    summary = fit(summary, max(free - cell_len(subject) - len(joint), 0))
    linked = text + Style.from_meta({"link": flat(head.subject)}) if head.tool in _FILE_TOOLS else text
    runs = [Segment(verb, text), Segment(subject, linked)]
    if summary:
        role = state_of(head.state).role if head.state in ("failed", "exit") else "dim"
        runs += [Segment(joint, dim), Segment(summary, palette.style(role))]
    used = sum(run.cell_length for run in runs)
    runs += [Segment(" " * max(room - used - cell_len(right), 0), text), Segment(right, dim)]
    return Strip(runs)


BAR = 1
"""Columns before a row: the bar of the focused item."""
SCROLLBAR = 1
"""Columns after a row."""

Span = tuple[int, int]


def paint_strip(
    strip: Strip,
    palette: Palette,
    *,
    focused: bool = False,
    thumb: bool | None = None,
    found: Sequence[Span] = (),
    current: int = -1,
    selected: Span | None = None,
) -> Strip:
    """Return a whole screen row: the focus bar, `strip` with its spans marked, and the scrollbar.

    Spans count characters; `current` is the index of the visited one in `found`; `thumb` is None without a
    scrollbar.
    """
    for number, span in enumerate(found):
        strip = mark_span(strip, span, palette, "match", reverse=number == current)
    if selected is not None:
        strip = mark_span(strip, selected, palette)
    bar = Segment("▎" if focused else " ", palette.style("accent"))
    if thumb is None:
        edge = Segment(" ", palette.style("text"))
    else:
        edge = Segment("┃" if thumb else " ", palette.style("dim"))
    return Strip([bar, *strip, edge], BAR + strip.cell_length + SCROLLBAR)


def badge(row: Strip, text: str, palette: Palette) -> Strip:
    """Return a row with a short message over its right end."""
    room = row.cell_length - SCROLLBAR
    label = f" {fit(flat(text), max(room - 2, 0))} "
    start = max(room - cell_len(label), 0)
    body = Segment(label, palette.style("accent", "surface", bold=True))
    return Strip.join([row.crop(0, start), Strip([body]), row.crop(room)])


def thumb_rows(above: int, height: int, total: int) -> range | None:
    """Return the scrollbar rows covered by the thumb; None if everything is visible."""
    if total <= height or height < 1:
        return None
    size = max(1, height * height // total)
    start = min(above * (height - size) // max(total - height, 1), height - size)
    return range(start, start + size)


def empty_rows(height: int, width: int, palette: Palette, lessons: Sequence[str]) -> list[Strip]:
    """Return the rows of an empty conversation: banner, welcome and the wrapped `lessons`."""
    base = palette.style("text")
    lines = [[Segment(flat(line), palette.style("dim"))] for line in palette.skin.banner.splitlines()]
    lines += [[]] if lines else []
    room = max(width - BAR - GUTTER - 2 * SCROLLBAR, 1)
    lines += wrap([Segment(flat(palette.skin.welcome), palette.style("text", bold=True))], room)
    for lesson in lessons:
        lines += wrap([Segment(lesson, palette.style("dim"))], room)
    start = max((height - len(lines)) // 3, 0)
    blank = Strip([Segment(" " * width, base)])
    indent = Segment(" " * (BAR + GUTTER), base)
    drawn = [Strip([indent, *line]).crop_extend(0, width, base) for line in lines]
    return ([blank] * start + drawn + [blank] * height)[:height]


def mark_span(
    row: Strip, span: Span, palette: Palette, role: str = "selection", *, reverse: bool = False
) -> Strip:
    """Return `row` with a span on a role's background, or in the attributes used without colours."""
    text = row.text
    end = len(text) if span[1] < 0 else span[1]
    first, last = cell_len(text[: span[0]]), cell_len(text[:end])
    style = palette.style("text", role)
    lit = Style(
        bgcolor=style.bgcolor,
        bold=style.bold or reverse or None,
        # Dim and reverse together cannot be read.
        dim=False if reverse else None,
        reverse=style.reverse or reverse or None,
        underline=style.underline,
    )
    inside = Strip([Segment(run.text, (run.style or Style.null()) + lit) for run in row.crop(first, last)])
    return Strip.join([row.crop(0, first), inside, row.crop(last)])
