"""The header of an agent's conversation: its name, what it does and what it has used, in two lines."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from rich.text import Text
from textual.strip import Strip
from textual.timer import Timer

from themes.skin import Skin
from widgets.painting.filtered_rows import DrawnRow
from widgets.palette import Palette
from widgets.panes import figures
from widgets.panes.agent_row import (
    LIVE,
    LOOKS,
    TIGHT,
    WORDS,
    AgentRow,
    AgentRowStyle,
    doing,
    speed_of,
    took,
    unmerged,
)
from widgets.panes.sparkline import draws_ascii_only
from widgets.rows.row_text import fit, one_line, spread, to_strip


class AgentHeader(DrawnRow):
    """`▶ callers  works · agent-1      0:42 · 11 calls · 8.1k ▕██░░▏ $0.03`, below it goal and action.

    Of one that is over, what it changed and nobody has merged stands in place of the action.
    """

    ALLOW_SELECT = False
    DEFAULT_CSS = "AgentHeader { height: 2; }"

    def __init__(
        self, row: Callable[[], AgentRow | None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`row` gives the agent as it stands; `clock` seconds, as in its row."""
        super().__init__()
        self.palette = Palette(Skin())
        self.motion = not os.environ.get("HERMES_REDUCED_MOTION")
        self._ascii_only = draws_ascii_only(os.environ)
        self._row = row
        self._clock = clock
        self._ticker: Timer | None = None

    def use(self, palette: Palette) -> None:
        """Draw in the colours of another skin."""
        self.palette = palette
        self.refresh()

    def move(self, motion: bool) -> None:
        """Whether anything moves."""
        self.motion = motion
        self.refresh()

    def tell(self) -> None:
        """Something about the agent is new."""
        if self._ticker is not None:
            row = self._row()
            works = row is not None and row.since is not None
            self._ticker.resume() if works else self._ticker.pause()
        self.refresh()

    def on_mount(self) -> None:
        self._ticker = self.set_interval(1.0, self.refresh, pause=True)
        self.tell()

    def render_line(self, y: int) -> Strip:
        row, width = self._row(), self.size.width
        base = self.palette.style("text")
        line = Text()
        if row is not None and y < 2:
            line = self._who(row, width) if y == 0 else self._what(row, width)
        return to_strip(line, width, base, self.app.console)

    def _who(self, row: AgentRow, width: int) -> Text:
        glyph, role = LOOKS[row.state]
        style = self.palette.style
        left = Text.assemble(
            " ",
            (glyph, style(role)),
            " ",
            (one_line(row.name), style("text", bold=True)),
            style=style("text"),
        )
        left.append(f"  {WORDS[row.state]}", style(role if row.state not in LIVE else "text"))
        if row.name != row.agent:
            left.append(f" · {one_line(row.agent)}", style("dim"))
        tight = row.budget is not None and row.budget >= TIGHT
        right = Text(
            f"{took(row, max(width * 3 // 5, 24), self._clock())} ", style("warning" if tight else "dim")
        )
        return spread(fit(left, max(width - right.cell_len - 1, 8)), right, width)

    def _what(self, row: AgentRow, width: int) -> Text:
        style = self.palette.style
        look = AgentRowStyle(style, self._clock(), self.motion, self._ascii_only)
        left = Text(f"   {one_line(row.goal)}", style("dim"))
        if row.state not in LIVE:
            mark = f"{unmerged(row)} not merged " if unmerged(row) else ""
            return spread(left, Text(mark, style("warning")), width)
        share = f"  {figures.percent(row.budget)} of its budget" if row.budget is not None else ""
        right = Text.assemble(
            fit(Text(doing(row), style("text" if row.state == "running" else "warning")), width // 2),
            (share, style("dim")),
            (f" {speed_of(row, look)}".rstrip(), style("accent")),
            " ",
        )
        return spread(left, fit(right, max(width * 2 // 3, 10)), width)
