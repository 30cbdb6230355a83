"""The branches of the session: a list with the messages on each, from which the person can switch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from agent.core.store.branches import OutlineRow
from agent.core.store.nodes import MAIN, BranchHead
from app.tui.screens.dialog import TextDialog
from app.tui.screens.page import Page, line
from tools.text.words import ago, plural
from widgets.rows.row_list import RowList
from widgets.rows.row_text import one_line, spread


@dataclass(frozen=True, slots=True)
class BranchEntry:
    """A branch in the list."""

    name: str
    node: int | None
    """The last node; None while the branch is empty."""
    last: str
    """The person's last message on the branch."""
    said: int
    """Number of the person's messages on the branch."""
    updated: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class BranchRequest:
    """An action on a branch that the person requested."""

    act: Literal["switch", "rename", "compare"]
    branch: str
    name: str = ""
    """The new name."""


class BranchRows(RowList):
    """One row per branch, the one in use first."""

    def __init__(self, branches: Sequence[BranchEntry], now: Callable[[], float]) -> None:
        super().__init__(self._row, search_text=lambda at: f"{branches[at].name} {branches[at].last}")
        self.branches = branches
        self._now = now
        self.reset(len(branches))

    def _row(self, index: int, width: int) -> list[Text]:
        branch = self.branches[index]
        mark, role = ("▶ ", "accent") if index == 0 else ("  ", "text")
        left = Text.assemble(" ", (f"{mark}↳ {one_line(branch.name)}", self.ink(role)))
        left.append(f"   {one_line(branch.last) or 'nothing was said'}", self.ink("dim"))
        words = f"  {plural(branch.said, 'message')}{ago(self._now() - branch.updated):>8} "
        return [spread(left, Text(words, self.ink("dim")), width)]


class BranchesScreen(Page[BranchRequest | None]):
    """The list of branches. Its result is a request, or None."""

    heading = "Branches of this session"
    keys = "⏎ switch · c compare with the one in use · R rename · / filter · ? help · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "compare", "Compare with the branch in use", id="branches.compare"),
        Binding("R", "rename", "Rename", id="branches.rename"),
    ]

    def __init__(self, branches: Sequence[BranchEntry], now: Callable[[], float] = time.time) -> None:
        """`branches` starts with the one in use."""
        self._branches = branches
        super().__init__(BranchRows(branches, now))

    def on_mount(self) -> None:
        only = len(self._branches) == 1
        self.state("/branch begins another" if only else f"{len(self._branches):,} branches")
        if not only:
            self.rows.move_to(1)

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        if event.index == 0:
            self.notify("The conversation is on this branch already.", markup=False)
        else:
            self.dismiss(BranchRequest("switch", self._branches[event.index].name))

    def action_compare(self) -> None:
        index = self.rows.cursor
        if index is None or index == 0:
            self.notify("Choose another branch than the one in use.", markup=False)
        else:
            self.dismiss(BranchRequest("compare", self._branches[index].name))

    @work(exclusive=True, group="act")
    async def action_rename(self) -> None:
        index = self.rows.cursor
        if index is None:
            return
        name = self._branches[index].name
        if name == MAIN:
            self.notify(f"The branch {MAIN} keeps its name.", markup=False)
            return
        given = await self.app.push_screen_wait(TextDialog(f"New name of the branch {line(name)}", name))
        if given and given.strip() and given.strip() != name:
            self.dismiss(BranchRequest("rename", name, given.strip()))


def branch_entries(heads: Sequence[BranchHead], rows: Sequence[OutlineRow]) -> list[BranchEntry]:
    """Return the branches with their last message and message count, in the order of `heads`. Pure."""
    known = {row.id: row for row in rows}
    found: list[BranchEntry] = []
    for head in heads:
        last, said, updated, node = "", 0, head.updated, head.node
        while node is not None and (row := known.get(node)) is not None:
            if node == head.node:
                updated = row.created
            if row.kind == "user" and row.origin != "engine":
                last, said = last or row.text, said + 1
            node = row.parent
        found.append(BranchEntry(head.name, head.node, last, said, updated))
    return found
