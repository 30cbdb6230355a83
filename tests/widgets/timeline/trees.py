"""Trees for tests, written as they grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from widgets.timeline.layout import (
    EMPTY,
    BranchTag,
    BranchTip,
    Drawing,
    NodeTree,
    TimelineFilter,
    build_tree,
    lay_out,
)
from widgets.timeline.paint import rails


@dataclass(frozen=True)
class Row:
    """A node as the store outlines it."""

    id: int
    parent: int | None = None
    kind: str = "user"
    text: str = ""
    created: float = 0.0
    step: int | None = None
    tool: str = ""
    outcome: str = ""
    origin: str = ""
    calls: int = 0


def grown(*nodes: str) -> list[Row]:
    """Rows of `id<parent kind`: `3<1 tool`; the parent of a first one is left out, the kind is `user`."""
    rows = []
    for node in nodes:
        line, _, kind = node.partition(" ")
        id, _, parent = line.partition("<")
        rows.append(Row(int(id), int(parent) if parent else None, kind or "user", f"n{id}"))
    return rows


def planted(
    rows: Sequence[Row],
    tips: Mapping[str, int | None],
    tags: Sequence[BranchTag] = (),
    paths: Mapping[int, Sequence[str]] | None = None,
) -> NodeTree:
    """The tree with these branches, the first of which is in use."""
    ends = [BranchTip(name, node) for name, node in tips.items()]
    return build_tree(rows, ends, next(iter(tips), ""), tags, paths)


def picture(tree: NodeTree, look: TimelineFilter = EMPTY) -> list[str]:
    """The rows with the lines left of them."""
    drawing = lay_out(tree, look)
    return [sketch(drawing, number) for number in range(len(drawing.lines))]


def sketch(drawing: Drawing, number: int) -> str:
    """One row: lines, glyph of its fold, id."""
    line = drawing.lines[number]
    glyph = {"": "●", "folded": "▸", "open": "▾", "closed": "◂"}[line.fold]
    return "".join(text for text, _ in rails(line)) + f"{glyph} {drawing.tree.rows[line.node].id}"
