"""The visible lines of rows: the arithmetic of `RowList`, without a screen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence


class RowView:
    """A window of `height` lines over rows of any height, some hidden by a filter.

    Cursor and scroll position are row indices, so they keep their row when other rows are added, removed or
    hidden. Heights are computed only in or near the window.
    """

    def __init__(self, height_of: Callable[[int], int], *, count: int = 0, follow: bool = False) -> None:
        self._height_of = height_of
        self._can_follow = follow
        self.count = count
        """The number of all rows."""
        self.rows: Sequence[int] = range(count)
        """The indexes of the shown rows, ascending."""
        self.scanned: int | None = None
        """While a filter is active, the first row not yet tested; otherwise None."""
        self.height = 0
        """The number of visible lines."""
        self.follow = follow
        self._cursor = 0
        self._top = 0
        self._skip = 0
        self._layout: list[tuple[int, int]] | None = None

    # The window

    @property
    def cursor_row(self) -> int | None:
        """The row under the cursor; while following, the newest row."""
        if not self.rows:
            return None
        return self.rows[-1] if self.follow else self.rows[self._position(self._cursor)]

    def layout(self) -> list[tuple[int, int]]:
        """Return the visible lines from top to bottom, as (row, line within it)."""
        if self._layout is None:
            self._settle()
            self._layout = self._lines_from(self._position(self._top), self._skip)
        return self._layout

    def hidden(self) -> tuple[int, int]:
        """Return how many rows are above and below the window."""
        layout = self.layout()
        if not layout:
            return 0, 0
        return self._position(layout[0][0]), len(self.rows) - 1 - self._position(layout[-1][0])

    def forget_layout(self) -> None:
        """Drop the cached layout because heights may have changed."""
        self._layout = None

    def resize(self, height: int) -> None:
        """Set the window's height in lines."""
        self.height = max(height, 0)
        self._layout = None
        if not self.follow:
            self._reveal_cursor()

    # Changes of the rows

    def reset(self, count: int) -> None:
        """Replace all rows with `count` new ones; the cursor keeps its index if it still exists."""
        self.count = count
        self.rows = range(count)
        self.scanned = None
        self._cursor = min(self._cursor, max(count - 1, 0))
        self._layout = None

    def append(self, count: int, matching: Sequence[int]) -> None:
        """Add `count` rows at the end, of which the filter accepts `matching`."""
        if self.scanned is None:
            self.rows = range(self.count + count)
        elif self.scanned >= self.count:
            self.scanned = self.count + count
            self._shown_list().extend(matching)
        self.count += count
        self._layout = None

    def insert(self, index: int, accepted: bool) -> None:
        """Insert one row before the row at `index`."""
        self.count += 1
        if self.scanned is None:
            self.rows = range(self.count)
        else:
            rows = self._shown_list()
            at = bisect_left(rows, index)
            rows[at:] = [row + 1 for row in rows[at:]]
            if index < self.scanned or self.scanned >= self.count - 1:
                self.scanned += 1
                if accepted:
                    rows.insert(at, index)
        self._cursor += index <= self._cursor
        self._top += index <= self._top
        self._layout = None

    def drop(self, count: int) -> None:
        """Remove the first `count` rows."""
        count = min(count, self.count)
        self.count -= count
        if self.scanned is None:
            self.rows = range(self.count)
        else:
            rows = self._shown_list()
            rows[:] = [row - count for row in rows[bisect_left(rows, count) :]]
            self.scanned = max(self.scanned - count, 0)
        self._skip = 0 if self._top < count else self._skip
        self._cursor = max(self._cursor - count, 0)
        self._top = max(self._top - count, 0)
        self._layout = None

    def update_match(self, index: int, accepted: bool) -> None:
        """Update the row at `index` and whether the filter accepts it."""
        self._layout = None
        if self.scanned is None or index >= self.scanned:
            return
        rows = self._shown_list()
        at = bisect_left(rows, index)
        shown = at < len(rows) and rows[at] == index
        if accepted and not shown:
            rows.insert(at, index)
        elif shown and not accepted:
            del rows[at]

    def start_filter(self) -> None:
        """Hide all rows until `add_matches` adds them."""
        self.rows = []
        self.scanned = 0
        self._layout = None

    def add_matches(self, rows: Sequence[int], scanned: int) -> None:
        """Add matching `rows`; all rows before `scanned` are filtered now."""
        self._shown_list().extend(rows)
        self.scanned = scanned
        self._layout = None

    def show_all(self) -> None:
        """Drop the filter; the cursor keeps its row and stays in view."""
        if (row := self.cursor_row) is not None and self.scanned is not None:
            self._cursor = row
        self.rows = range(self.count)
        self.scanned = None
        self._layout = None
        if not self.follow:
            self._reveal_cursor()

    def _shown_list(self) -> list[int]:
        if not isinstance(self.rows, list):
            self.rows = list(self.rows)
        return self.rows

    # Moving

    def move(self, rows: int) -> None:
        """Move the cursor by `rows` shown rows, at most to the first or the last one."""
        if (current := self.cursor_row) is None:
            return
        position = self._position(current) + rows
        self.move_to(self.rows[min(max(position, 0), len(self.rows) - 1)])

    def move_to(self, index: int) -> None:
        """Move the cursor to a row, or the next shown one after it. On the last row, following resumes."""
        if not self.rows:
            return
        layout = self.layout()
        self._keep_top(layout)
        self._cursor = self.rows[self._position(index)]
        self.follow = self._can_follow and self._cursor == self.rows[-1]
        self._layout = None
        if not self.follow:
            self._reveal_cursor()

    def page(self, direction: int) -> None:
        """Scroll one window down (1) or up (-1) with one line of overlap, without skipping any line."""
        layout = self.layout()
        if not layout or (at := self._page_start(layout, direction)) is None:
            return
        position = at + direction
        if not 0 <= position < len(self.rows):
            # Everything has been seen: the cursor moves to the end, and the window stays.
            self._keep_top(layout)
            self._cursor = self.rows[at]
            self.follow = self._can_follow and direction > 0
            return
        room = self.height - 1 - self._height_at(position)
        while room > 0 and (height := self._height_at(position + direction)) and height <= room:
            position, room = position + direction, room - height
        self.move_to(self.rows[position])
        over = self._height_at(position) - self.height
        if over > 0:
            # Of a row longer than the window, show the side next to the present position.
            self.follow = False
            self._top, self._skip, self._layout = self.rows[position], 0 if direction > 0 else over, None

    def _page_start(self, layout: list[tuple[int, int]], direction: int) -> int | None:
        """Return the position after which the next page starts; None after scrolling within a long row."""
        edge = layout[-1] if direction > 0 else layout[0]
        current, shown = self.cursor_row, {row for row, _ in layout}
        if current is None or current not in shown:
            current = edge[0]
        if current != edge[0]:
            return self._position(current)
        hidden = self._height_of(current) - 1 - edge[1] if direction > 0 else edge[1]
        if not hidden:
            return self._position(current)
        if len(shown) > 1 and current != self.cursor_row:
            return self._position(current) - direction
        self.scroll(direction * min(hidden, max(self.height - 1, 1)))
        return None

    def to_end(self) -> None:
        """Move the cursor to the last row."""
        if self.rows:
            self.move_to(self.rows[-1])

    def scroll(self, lines: int) -> bool:
        """Move the window without the cursor; return False if nothing changed, as at the ends."""
        layout = self.layout()
        if not layout:
            return False
        before = (layout[0], self.follow)
        self._keep_top(layout)
        if self.follow:
            self._cursor = self.rows[-1]
        position, skip = self._step(self._position(self._top), self._skip + lines)
        bottom = self._bottom()
        at_end = (position, skip) >= bottom
        self.follow = self._can_follow and at_end
        position, skip = min((position, skip), bottom)
        self._top, self._skip = self.rows[position], skip
        self._layout = None
        return (self.layout()[0], self.follow) != before

    # Arithmetic

    def _position(self, row: int) -> int:
        return min(bisect_left(self.rows, row), max(len(self.rows) - 1, 0))

    def _height_at(self, position: int) -> int:
        """Return the lines of the row at a position; 0 beyond the ends."""
        return self._height_of(self.rows[position]) if 0 <= position < len(self.rows) else 0

    def _keep_top(self, layout: list[tuple[int, int]]) -> None:
        if layout:
            self._top, self._skip = layout[0]

    def _lines_from(self, position: int, skip: int) -> list[tuple[int, int]]:
        lines: list[tuple[int, int]] = []
        while position < len(self.rows) and len(lines) < self.height:
            row = self.rows[position]
            room = self.height - len(lines)
            lines += [(row, line) for line in range(skip, min(self._height_of(row), skip + room))]
            position, skip = position + 1, 0
        return lines

    def _step(self, position: int, skip: int) -> tuple[int, int]:
        """Normalise a position and `skip` lines from it to a row and a line within it, clamped."""
        while skip < 0 and position > 0:
            position -= 1
            skip += self._height_of(self.rows[position])
        while position < len(self.rows) - 1 and skip >= self._height_of(self.rows[position]):
            skip -= self._height_of(self.rows[position])
            position += 1
        return position, max(skip, 0)

    def _bottom(self) -> tuple[int, int]:
        """Return the position and line at the window's top if the last line is at its bottom."""
        position, lines = len(self.rows), 0
        while position > 0 and lines < self.height:
            position -= 1
            lines += self._height_of(self.rows[position])
        return min(position, len(self.rows) - 1), max(lines - self.height, 0)

    def _settle(self) -> None:
        """Clamp the top: at the end while following, never beyond it."""
        if not self.rows:
            return
        bottom = self._bottom()
        position = self._position(self._top)
        skip = self._skip if self.rows[position] == self._top else 0
        place = bottom if self.follow else min((position, skip), bottom)
        self._top, self._skip = self.rows[place[0]], place[1]

    def _reveal_cursor(self) -> None:
        """Move the window as little as needed to show the cursor's row."""
        if not self.rows or self.height <= 0:
            return
        position = self._position(self._cursor)
        height = self._height_of(self.rows[position])
        top, skip = self._position(self._top), self._skip
        if (position, 0) < (top, skip):
            top, skip = position, 0
        else:
            lines, at = height, position
            while at > top and lines < self.height:
                at -= 1
                lines += self._height_of(self.rows[at])
            above = (at, max(lines - self.height, 0)) if lines >= self.height else (top, skip)
            top, skip = max((top, skip), above)
            if height > self.height:
                top, skip = position, 0
        self._top, self._skip = self.rows[top], skip
        self._layout = None
