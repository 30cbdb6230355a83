"""Rows written directly to the terminal, without a frame of Textual: only the cells that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.segment import Segment
from rich.style import Style
from textual.errors import NoWidget
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from tools.kit.lazy_pattern import lazy_pattern
from widgets.painting.clusters import has_clusters

ROWS = 512
"""The number of rows whose terminal text is cached."""
SCROLLED = 4
"""The number of rows that scrolling must save, because it takes a dozen bytes itself."""
FARTHEST = 8
"""The maximum number of rows scrolled in one frame."""
STYLES = 2_048
"""The number of styles that are cached; each link address has a style of its own."""

_RESET = "\x1b[0m"


class _RowStyle(NamedTuple):
    """A style as the terminal's escape code and background."""

    style: Style | None
    """Kept alive, so that no other style gets its identity."""
    code: str
    """The sequence that sets the style, whatever style was set before."""
    ground: str | None
    """The style's background; None if blanks show more than that, such as an underline."""
    colours: tuple[str, str] = ("", "")
    """The parameters of the foreground and the background."""
    effects: str = ""
    """The other parameters, such as those of bold."""

    def after(self, shown: _RowStyle) -> str:
        """Return the shortest sequence that changes the style from `shown` to this one."""
        if self.effects != shown.effects or not all(self.colours) or not all(shown.colours):
            return self.code
        changed = [new for new, old in zip(self.colours, shown.colours, strict=True) if new != old]
        return f"\x1b[{';'.join(changed)}m" if changed else ""


_PLAIN = _RowStyle(None, _RESET, _RESET)
_COLOUR = lazy_pattern(r"(?:^|;)((?:[34]8;(?:5;\d+|2;\d+;\d+;\d+))|(?:[349]|10)[0-79])(?=;|$)")
"""A colour among the parameters of a style: of 24 bits, of a table of 256, or of 16."""


def _row_style(style: Style | None, codes: str, ground: str | None) -> _RowStyle:
    """Return the `_Look` of a style with these parameters."""
    if not codes:
        return _RowStyle(style, _RESET, ground)
    colours = ["", ""]
    for found in _COLOUR.finditer(codes):
        colours[found[1].startswith(("4", "10"))] = found[1]
    return _RowStyle(style, f"\x1b[0;{codes}m", ground, (colours[0], colours[1]), _COLOUR.sub("", codes))


class RowEncoder:
    """An encoder of rows as terminal text, with a cache. Each row resets its style at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._system = COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
        self._rows: dict[int, tuple[Strip, str]] = {}
        """Rows and their terminal text, by the identity of the row."""
        self._looks: dict[int, _RowStyle] = {}
        """Styles by their identity."""

    def encode(self, row: Strip) -> str:
        """Return the terminal text of a row."""
        known = self._rows.get(id(row))
        if known is None:
            if len(self._rows) >= ROWS:
                self._rows.clear()
            known = self._rows[id(row)] = (row, self.encode_once(row))
        return known[1]

    def encode_once(self, row: Strip) -> str:
        """Return the terminal text of a row without caching it, because it is not written again."""
        text, shown = self.encode_after(row, _PLAIN)
        return text if shown.code == _RESET else text + _RESET

    def encode_after(self, row: Strip, shown: _RowStyle) -> tuple[str, _RowStyle]:
        """Return the terminal text of a row that follows the style `shown`, and the style at its end."""
        done: list[str] = []
        before = waiting = shown
        blanks = ""  # blanks held back until text on their background follows
        for text, style, control in row:
            if control or (style is not None and style.link):
                reset = "" if before.code == _RESET else _RESET
                return reset + row.render(self._console), _PLAIN
            look = self._row_style(style)
            if blanks and look.ground != waiting.ground:
                done += (waiting.after(shown), blanks)
                shown, blanks = waiting, ""
            if look.ground is not None and text.isspace():
                if not blanks and look.ground == shown.ground:
                    done.append(text)
                else:
                    waiting, blanks = look, blanks + text
                continue
            if look.code != shown.code:
                done.append(look.after(shown))
            done += (blanks, text)
            shown, blanks = look, ""
        if blanks:
            done += (waiting.after(shown), blanks)
            shown = waiting
        return "".join(done), shown

    def _row_style(self, style: Style | None) -> _RowStyle:
        if style is None:
            return _PLAIN
        known = self._looks.get(id(style))
        if known is None:
            if len(self._looks) >= STYLES:
                self._looks.clear()
            ground = None if _shows_blanks(style) else self._code(style.background_style)
            known = self._looks[id(style)] = _row_style(style, Strip.render_ansi(style, self._system), ground)
        return known

    def _code(self, style: Style) -> str:
        codes = Strip.render_ansi(style, self._system)
        return f"\x1b[0;{codes}m" if codes else _RESET


def _shows_blanks(style: Style) -> bool:
    """Return whether a blank in this style shows more than its background."""
    lines = style.underline or style.underline2 or style.strike or style.overline
    return bool(lines or style.reverse or style.frame or style.encircle)


def changed_cells(before: Strip | None, after: Strip) -> tuple[int, Strip]:
    """Return the first cell in which `after` differs from `before`, and `after` from there to the last one.

    The whole row counts as different if `before` is None or has another length, or if there are emoji of
    several characters, which a terminal may draw over the following cells.
    """
    cells = after.cell_length
    if before is None or before.cell_length != cells or has_clusters(after.text) or has_clusters(before.text):
        return 0, after
    old, new = list(before), list(after)
    head = _same_cells(old, new)
    if head == cells:
        return cells, Strip([], 0)
    tail = _same_cells(old[::-1], new[::-1], backwards=True)
    end = max(cells - tail, head)
    return head, after.crop(head, end)


def _same_cells(old: list[Segment], new: list[Segment], *, backwards: bool = False) -> int:
    """Return the number of equal cells at the beginning of two lists of segments.

    Within a segment only ASCII is compared: other characters may combine with their neighbours.
    """
    cells = 0
    for one, other in zip(old, new, strict=False):
        if one == other:
            cells += one.cell_length
            continue
        if one.style == other.style and one.text.isascii() and other.text.isascii():
            pair = (one.text[::-1], other.text[::-1]) if backwards else (one.text, other.text)
            pairs = enumerate(zip(*pair, strict=False))
            cells += next((at for at, (a, b) in pairs if a != b), min(map(len, pair)))
        break
    return cells


BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
"""The sequences around output that is shown at once; terminals that do not know them ignore them."""


class DirectRows:
    """A writer of one widget's rows to the terminal, active while the widget is visible and uncovered."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self.write: Callable[[str], None] | None = None
        """Writes to the terminal, in order with Textual's own output; None if that is not possible."""
        self.may_scroll = True
        """Whether the terminal may scroll rows itself; pictures on them would not move along."""
        self._place: Region | None = None
        """The widget's region on the screen since the last layout; None if it is cut off or covered."""
        self._watches = self._known = False
        self._ink: RowEncoder | None = None
        self._standing: dict[int, Strip] = {}
        """The rows that the terminal shows, by their number; a missing one is unknown."""

    def forget(self) -> None:
        """Forget which rows the terminal shows, because that may have changed."""
        self._standing.clear()

    def note_painted(self, crop: Region, rows: Sequence[Strip]) -> None:
        """Record the rows of a part of the widget that Textual paints now."""
        whole = not crop.x and crop.width >= self._widget.size.width
        for y, row in enumerate(rows, crop.y):
            if whole:
                self._standing[y] = row
            else:
                self._standing.pop(y, None)

    def write_rows(self, rows: Iterable[tuple[int, Strip]]) -> bool:
        """Write whole rows of the widget, each with its number; return False if a full frame is needed."""
        widget, write = self._widget, self.write
        if write is None or not widget.screen.is_active:
            return False
        place = self._find_place()
        if place is None or place.size != widget.size:
            return False
        ink = self._ink = self._ink or RowEncoder(widget.app.console)
        left, top = place.x + 1, place.y + 1
        lines: list[str] = []
        look = _PLAIN
        wanted = dict(rows)
        if shift := self._shift(wanted):
            # The terminal moves the rows itself; what then differs from the picture is written.
            bottom = top + place.height - 1
            lines.append(f"\x1b[{top};{bottom}r\x1b[{bottom};1H{chr(10) * shift}\x1b[r")
            wanted = {y: wanted.get(y, self._standing[y]) for y in range(place.height)}
            self._standing = {y - shift: row for y, row in self._standing.items() if y >= shift}
        for y, strip in wanted.items():
            start, changed = changed_cells(self._standing.get(y), strip)
            self._standing[y] = strip
            if changed.cell_length:
                text, look = ink.encode_after(changed, look)
                lines.append(f"\x1b[{top + y};{left + start}H{text}")
        if not lines:
            return True
        # Back to where input methods show what is being typed.
        x, y = widget.screen.outer_size.clamp_offset(widget.app.cursor_position)
        lines.append(f"{_RESET}\x1b[{y + 1};{x + 1}H")
        # A single piece of a row needs no marks to be shown at once.
        write("".join(lines if len(lines) == 2 else [BEGIN, *lines, END]))
        return True

    def _shift(self, wanted: Mapping[int, Strip]) -> int:
        """Return by how many rows the terminal should scroll up before `wanted` is written; 0: not at all."""
        height = self._widget.size.height
        screen = self._widget.screen.outer_size
        has_room = self.may_scroll and len(wanted) >= SCROLLED and self._widget.size.width == screen.width
        if not has_room or any(y not in self._standing for y in range(height)):
            return 0
        before = [self._standing[y] for y in range(height)]
        after = [wanted.get(y, before[y]) for y in range(height)]
        written = {
            shift: shift + sum(old != new for old, new in zip(before[shift:], after, strict=False))
            for shift in range(min(FARTHEST, height - 1) + 1)
        }
        best = min(written, key=lambda shift: (written[shift], shift))
        return best if written[best] + SCROLLED <= written[0] else 0

    def _find_place(self) -> Region | None:
        if not self._watches:
            self._watches = True
            signal = self._widget.screen.screen_layout_refresh_signal
            signal.subscribe(self._widget, self._laid_out, immediate=True)
        if not self._known:
            self._known, self._place = True, uncovered_region(self._widget)
        return self._place

    def _laid_out(self, _screen: object) -> None:
        """Forget the cached region and the rows shown there, after a layout change."""
        self._known = False
        self._standing.clear()


def uncovered_region(widget: Widget) -> Region | None:
    """Return the screen region of a widget without children; None if it is cut off or covered.

    Any other widget in the region counts, even one below, except for the ancestors.
    """
    screen = widget.screen
    try:
        place = screen.find_widget(widget)
    except NoWidget:
        return None
    if not place.region or place.visible_region != place.region:
        return None
    around = set(widget.ancestors_with_self)
    for other in screen.walk_children(Widget):
        if other not in around and _touches(other, place.region):
            return None
    return place.region


def _touches(widget: Widget, region: Region) -> bool:
    try:
        seen = widget.screen.find_widget(widget).visible_region
    except NoWidget:  # it is not displayed
        return False
    return bool(seen) and seen.overlaps(region)
