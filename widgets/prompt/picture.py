"""The prompt as rows of the screen, and which of them have to be painted anew."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from widgets.palette import Palette
from widgets.prompt.buffer import Span
from widgets.prompt.draft import Draft
from widgets.prompt.grapheme_cells import width
from widgets.prompt.history import HistorySearch
from widgets.prompt.layout import lay_out, offset_at, row_of
from widgets.prompt.painting import GUTTER, SearchView, View, paint, paint_search, text_width
from widgets.prompt.queue_view import QueueView


class PromptPicture:
    """The messages that wait and below them the wrapped text, as strips kept from one to the next."""

    def __init__(self, draft: Draft, queue: QueueView) -> None:
        self._draft = draft
        self._queue = queue
        self.rows: list[Span] = [(0, 0)]
        """The rows of the text."""
        self._top = 0
        """The first row of the text that shows."""
        self._shown = 1
        """How many do."""
        self.strips: Sequence[Strip] = ()

    def measure(self, cells: int, screen_rows: int) -> int:
        """Wrap the text in `cells`; the rows all of it wants, for the text a third of the screen at most."""
        above = self._queue.height
        self._wrap(cells, max(screen_rows // 3 - above, 1))
        return above + self._shown

    def draw(
        self,
        cells: int,
        room: int,
        palette: Palette,
        *,
        focused: bool,
        placeholder: str,
        hints: Sequence[str],
        search: HistorySearch | None,
    ) -> list[int]:
        """Paint what was measured into `room` rows; returns the places of those that differ from before."""
        left = room - self._queue.height
        if 0 < left < self._shown:
            # The new row is written at once; room for it comes with the layout, which takes longer.
            self._wrap(cells, left)
        buffer = self._draft.buffer
        is_shell = buffer.text.startswith("!")
        view = View(
            text=buffer.text,
            rows=self.rows,
            top=self._top,
            height=self._shown,
            width=cells,
            cursor=buffer.cursor,
            selection=buffer.selection,
            focused=focused,
            symbol="!" if is_shell else palette.skin.prompt_symbol,
            symbol_role="warning" if is_shell else "user",
            placeholder=placeholder,
            hints=hints,
            labels=self._draft.pastes.labels,
        )
        strips = [*self._queue.paint(cells, palette), *paint(view, palette)]
        if search is not None:
            found = SearchView(search.query, search.match, search.span, search.place, cells)
            strips[-self._shown] = paint_search(found, palette)
        before, self.strips = self.strips, strips
        return [at for at, strip in enumerate(strips) if at >= len(before) or before[at] != strip]

    def cursor_cell(self) -> tuple[int, int]:
        """Column and row of the cursor within the prompt."""
        buffer = self._draft.buffer
        row = row_of(self.rows, buffer.cursor)
        before = buffer.text[self.rows[row][0] : buffer.cursor]
        column = GUTTER + width(before, self._draft.pastes.labels)
        return column, self._queue.height + row - self._top

    def offset_at(self, x: int, y: int) -> int:
        """The offset in the text nearest to a cell of the prompt."""
        row = self._top + y - self._queue.height
        return offset_at(self._draft.buffer.text, self.rows, row, x - GUTTER, self._draft.pastes.labels)

    def _wrap(self, cells: int, most: int) -> None:
        """Wrap the text and scroll to the cursor; `most` rows show at the most."""
        buffer = self._draft.buffer
        self.rows = lay_out(buffer.text, text_width(cells), self._draft.pastes.labels)
        shown = self._shown = min(len(self.rows), most)
        here = row_of(self.rows, buffer.cursor)
        self._top = min(max(self._top, here - shown + 1), here, len(self.rows) - shown)
