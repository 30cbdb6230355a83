"""The completion menu: a layer over the conversation, just above the prompt."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from themes.skin import Skin
from tools.text.safe_text import clean
from widgets.palette import Palette
from widgets.prompt.completion import CompletionChoice
from widgets.prompt.grapheme_cells import clusters

SHOWN = 8
"""Rows at most; more choices scroll."""


class CompletionMenu(Widget, can_focus=False):
    """Choices, one selected. Drawn over what lies above its parent, whose layout it leaves alone."""

    DEFAULT_CSS = """
    CompletionMenu { overlay: screen; display: none; width: 100%; height: 1; }
    """
    ALLOW_SELECT = False

    class Picked(Message):
        """A choice was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self) -> None:
        super().__init__()
        self.palette = Palette(Skin())
        self.choices: Sequence[CompletionChoice] = ()
        self.selected = 0
        self._top = 0

    @property
    def is_open(self) -> bool:
        return bool(self.choices)

    def use(self, palette: Palette) -> None:
        """Draw in another palette."""
        self.palette = palette
        self.refresh()

    def show(self, choices: Sequence[CompletionChoice]) -> None:
        """Show these choices with the first one selected; none closes the menu."""
        if choices == self.choices:
            return
        shown = min(len(choices), SHOWN)
        if shown != min(len(self.choices), SHOWN):
            # The only layout change: the layer itself appears, goes, or takes another height.
            self.display = shown > 0
            self.styles.height = max(shown, 1)
            self.styles.offset = (0, -shown)
        self.choices, self.selected, self._top = choices, 0, 0
        self.refresh()

    def step(self, count: int) -> None:
        """Select another choice; the ends meet."""
        if not self.choices:
            return
        before, top = self.selected, self._top
        self.selected = (self.selected + count) % len(self.choices)
        self._top = min(max(top, self.selected - SHOWN + 1), self.selected)
        if top != self._top:
            self.refresh()
            return
        # The last row holds the count.
        for row in {before - top, self.selected - top, SHOWN - 1}:
            self.refresh(Region(0, row, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        at = self._top + y
        if not 0 <= at < len(self.choices):
            return Strip.blank(self.size.width, self.palette.style("text", "surface"))
        last = y == min(len(self.choices), SHOWN) - 1 and len(self.choices) > SHOWN
        count = f"{self.selected + 1}/{len(self.choices)}" if last else ""
        label = max(cell_len(choice.label + choice.hint) for choice in self.choices) + 3
        room = min(label, self.size.width * 2 // 5)
        return paint_choice(self.choices[at], at == self.selected, self.size.width, room, count, self.palette)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = self._top + event.y
        if at < len(self.choices):
            self.post_message(self.Picked(at))


def paint_choice(
    choice: CompletionChoice, chosen: bool, width: int, labels: int, count: str, palette: Palette
) -> Strip:
    """One row: the label with what matched in the accent, its hint, its description, a count at the right."""
    background = "selection" if chosen else "surface"
    dim = palette.style("dim", background)
    plain = palette.style("text", background)
    hit = palette.style("accent", background, bold=True)
    has_detail = bool(choice.detail)
    room = max((labels if has_detail else width - 2) - 1, 1)
    characters = clusters(choice.label)
    shortened = ""
    while sum(character.cells for character in characters) + len(shortened) > room and characters:
        # The end of a path tells more than its start.
        shortened = "…"
        characters = characters[1:]
    segments = [Segment("▸ " if chosen else "  ", palette.style("accent", background))]
    segments.append(Segment(shortened, plain))
    for character in characters:
        matched = not set(range(character.start, character.end)).isdisjoint(choice.hits)
        segments.append(Segment(character.shown, hit if matched else plain))
    if choice.hint:
        segments.append(Segment(" " + clean(choice.hint), dim))
    if has_detail:
        blank = 2 + labels - sum(cell_len(segment.text) for segment in segments)
        detail = clean(choice.detail).replace("\n", " ")
        segments += [Segment(" " * max(blank, 1), plain), Segment(detail, plain if chosen else dim)]
    left = Strip(list(Strip(segments).crop(0, max(width - len(count) - 2 if count else width, 0))))
    gap = max(width - left.cell_length - len(count) - (1 if count else 0), 0)
    tail = [Segment(" " * gap, plain), Segment(count, dim), Segment(" " if count else "", plain)]
    return (
        Strip([*left, *tail], width) if width > len(count) + 2 else Strip([*left]).adjust_cell_length(width)
    )
