"""A list of options whose chosen row begins with the mark that all lists put there."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widgets import OptionList

MARK = "▌"


class MarkedList(OptionList):
    """An option list that says by a glyph, not by a colour alone, which row is chosen.

    The mark takes the first cell of each line of the chosen option; the prompts leave it blank.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"marked-list--mark"}
    DEFAULT_CSS = """
    MarkedList > .marked-list--mark {
        color: $accent;
    }
    """

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        first = next(iter(strip), None)
        if first is None or first.style is None or not first.text.startswith(" "):
            return strip
        # Each option's number stands in the style of its cells, where clicks are looked up too.
        if self.highlighted is None or first.style.meta.get("option") != self.highlighted:
            return strip
        color = self.get_component_rich_style("marked-list--mark", partial=True)
        return Strip.join([Strip([Segment(MARK, first.style + color)]), strip.crop(1)])
