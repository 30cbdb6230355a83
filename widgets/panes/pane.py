"""Base of all side panes: a title row, folding, and a summary for narrow screens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from widgets.rows.row_list import Draw, RowList
from widgets.rows.row_text import spread


@dataclass(frozen=True, slots=True)
class Summary:
    """A pane in a few words: `TODO 3/5 ▶ Use Decimal…`."""

    title: str
    figure: str
    note: str = ""
    """What is going on now; cut first when room is short."""
    alerts: int = 0
    """How many things wait for the person; drawn as `◆1`."""


EVERY_PANE = "/ filter · ? help · jkgG move · y copy · nN match · space fold · <> width · esc back"


class Pane(RowList):
    """A side pane: a list of rows under a title row with a figure at its right end."""

    FLEXIBLE: ClassVar[bool] = False
    """Whether it takes the height that others leave."""
    KEYS: ClassVar[str] = "⏎ open · "
    """What its own keys do; said below the panes before those of every pane."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "fold", "Fold", id="pane.fold")]

    class Reshaped(Message):
        """The pane wants another height, hides or appears, or its summary changed."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

        @property
        def control(self) -> Pane:
            return self.pane

    class FoldAsked(Message):
        """The person folded or unfolded the pane."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.pane = pane

        @property
        def control(self) -> Pane:
            return self.pane

    def __init__(
        self,
        name: str,
        draw: Draw,
        *,
        title: str,
        search_text: Callable[[int], str],
        empty: str,
        follow: bool = False,
    ) -> None:
        super().__init__(
            draw,
            search_text=search_text,
            empty=empty,
            follow=follow,
            background="surface",
            name=name,
            classes="pane",
        )
        self.label = name
        """What the pane is called in `PaneBar` messages and in the remembered state."""
        self.title = title
        self.folded = False
        self.jump_key = ""
        """In jump mode, the key that leads here."""
        self.over = False
        """Whether it lies over the conversation, to be closed with esc."""

    @property
    def vacant(self) -> bool:
        """Whether there is nothing to show and no room is wanted."""
        return False

    def wanted_lines(self, width: int) -> int:
        """Lines of content it would fill at `width` cells; an empty pane wants its hint only."""
        return max(self.count, 1)

    def figure(self) -> str:
        """The number at the right end of the title row."""
        return str(self.count) if self.count else ""

    def summary(self) -> Summary:
        """The pane in a few words."""
        return Summary(self.title, self.figure())

    def heading(self, width: int) -> Text:
        left = Text(" ", self.ink("text"))
        if self.jump_key:
            left.append(f" {self.jump_key} ", self.palette.style("background", "accent", bold=True))
            left.append(" ")
        if self.folded and not self.over:
            left.append("▸ ", self.ink("dim"))
        left.append(self.title, self.ink("accent" if self.has_focus else "dim", bold=True))
        return spread(left, self.title_end().append(" "), width)

    def title_end(self) -> Text:
        """What stands at the right end of the title row."""
        if self.over:
            return Text(f"{self.figure()}  esc back", self.ink("dim"))
        if self.needle:
            return Text(f"{self.shown} of {self.count}", self.ink("dim"))
        return Text(self.figure(), self.ink("dim"))

    def reshaped(self) -> None:
        """Tell the workbench that height or summary may have changed."""
        if self.is_running:
            self.post_message(self.Reshaped(self))

    def action_fold(self) -> None:
        if not self.over:
            self.post_message(self.FoldAsked(self))

    def on_click(self, event: events.Click) -> None:
        if event.y == 0:
            self.action_fold()
            event.stop()
            event.prevent_default()
