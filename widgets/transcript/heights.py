"""Heights of many things that stand below each other, in Fenwick trees."""

from __future__ import annotations

from array import array
from collections.abc import Iterable


class Heights:
    """Heights in rows, of things that are added at both ends.

    What is appended counts on from 0, what is prepended down from the first, so that
    an index stays the same whatever comes and goes above it. Reading one is O(1); adding
    one, changing one, adding up and finding a row are O(log n). Each takes 16 bytes.
    """

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._below = _Tree(heights)
        self._above = _Tree()
        """Those above `_middle`, the nearest first."""
        self._middle = 0

    def __len__(self) -> int:
        return len(self._above) + len(self._below)

    def __getitem__(self, index: int) -> int:
        at = index - self._middle
        return self._below[at] if at >= 0 else self._above[~at]

    @property
    def total(self) -> int:
        """Rows of all together."""
        return self._above.total + self._below.total

    def append(self, height: int) -> None:
        """Add one at the end."""
        self._below.append(height)

    def prepend(self, height: int) -> None:
        """Add one above the first."""
        self._above.append(height)

    def set(self, index: int, height: int) -> None:
        """Change one height."""
        at = index - self._middle
        if at >= 0:
            self._below.set(at, height)
        else:
            self._above.set(~at, height)

    def before(self, index: int) -> int:
        """Rows of all above `index` together."""
        at = index - self._middle
        if at >= 0:
            return self._above.total + self._below.before(at)
        return self._above.total - self._above.before(-at)

    def find(self, row: int) -> tuple[int, int]:
        """Which one holds `row`, and the row within it. Beyond the end: one past the last, and rows beyond.

        Those without rows are passed over.
        """
        above = self._above.total
        if row >= above:
            at, rest = self._below.find(row - above)
            return self._middle + at, rest
        at, rest = self._above.find(above - 1 - row)
        return self._middle + ~at, self._above[at] - 1 - rest


class _Tree:
    """Heights that are added at one end only."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self.heights = array("q", heights)
        self._tree = array("q", [0, *self.heights])
        for index in range(1, len(self._tree)):
            parent = index + (index & -index)
            if parent < len(self._tree):
                self._tree[parent] += self._tree[index]
        self.total = sum(self.heights)

    def __len__(self) -> int:
        return len(self.heights)

    def __getitem__(self, index: int) -> int:
        return self.heights[index]

    def append(self, height: int) -> None:
        self.heights.append(height)
        end = len(self.heights)
        self._tree.append(self.before(end - 1) - self.before(end - (end & -end)) + height)
        self.total += height

    def set(self, index: int, height: int) -> None:
        change = height - self.heights[index]
        if not change:
            return
        self.heights[index] = height
        self.total += change
        node = index + 1
        while node < len(self._tree):
            self._tree[node] += change
            node += node & -node

    def before(self, index: int) -> int:
        rows = 0
        while index:
            rows += self._tree[index]
            index -= index & -index
        return rows

    def find(self, row: int) -> tuple[int, int]:
        index = 0
        step = 1 << len(self.heights).bit_length()
        while step:
            reached = index + step
            if reached <= len(self.heights) and self._tree[reached] <= row:
                index = reached
                row -= self._tree[reached]
            step >>= 1
        return index, row
