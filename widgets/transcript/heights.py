"""Heights of many things that stand below each other, in a Fenwick tree."""

from __future__ import annotations

from collections.abc import Iterable


class Heights:
    """Heights in rows. Reading one is O(1); changing one, adding up and finding a row are O(log n)."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights = list(heights)
        self._tree = [0, *self._heights]
        for index in range(1, len(self._tree)):
            parent = index + (index & -index)
            if parent < len(self._tree):
                self._tree[parent] += self._tree[index]

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    @property
    def total(self) -> int:
        """Rows of all together."""
        return self.before(len(self._heights))

    def append(self, height: int) -> None:
        """Add one at the end."""
        self._heights.append(height)
        end = len(self._heights)
        self._tree.append(self.before(end - 1) - self.before(end - (end & -end)) + height)

    def set(self, index: int, height: int) -> None:
        """Change one height."""
        change = height - self._heights[index]
        if not change:
            return
        self._heights[index] = height
        node = index + 1
        while node < len(self._tree):
            self._tree[node] += change
            node += node & -node

    def before(self, index: int) -> int:
        """Rows of the first `index` together."""
        rows = 0
        while index:
            rows += self._tree[index]
            index -= index & -index
        return rows

    def find(self, row: int) -> tuple[int, int]:
        """Which one holds `row`, and the row within it. Beyond the end: `(len(self), rows beyond)`.

        Those without rows are passed over.
        """
        index = 0
        step = 1 << len(self._heights).bit_length()
        while step:
            reached = index + step
            if reached <= len(self._heights) and self._tree[reached] <= row:
                index = reached
                row -= self._tree[reached]
            step >>= 1
        return index, row
