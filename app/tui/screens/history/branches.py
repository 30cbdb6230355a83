"""The branches of the session: a list with the messages on each, from which the person can switch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.text import Text
from textual.binding import Binding, BindingType

from agent.core.store.branches import OutlineRow
from agent.core.store.nodes import MAIN, BranchHead
from app.tui.screens.entry_page import EntryRows, ListPage, change_entry
from app.tui.screens.page import line
from themes.states import IN_USE
from tools.text.words import ago, plural
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


class BranchRows(EntryRows[BranchEntry]):
    """One row per branch, the one in use first."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(key=lambda branch: branch.name, words=lambda branch: f"{branch.name} {branch.last}")
        self._now = now

    def draw_entry(self, entry: BranchEntry, width: int) -> list[Text]:
        mark, role = (f"{IN_USE} ", "accent") if entry is self.entries[0] else ("  ", "text")
        left = Text.assemble(" ", (f"{mark}↳ {one_line(entry.name)}", self.ink(role)))
        left.append(f"   {one_line(entry.last) or 'nothing was said'}", self.ink("dim"))
        words = f"  {plural(entry.said, 'message')}{ago(self._now() - entry.updated):>8} "
        return [spread(left, Text(words, self.ink("dim")), width)]


class BranchesScreen(ListPage[BranchRequest | None, BranchEntry]):
    """The list of branches. Its result is a request, or None."""

    heading = "Branches of this session"
    keys = "⏎ switch · c compare with the one in use · r rename · / filter · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "compare", "Compare with the branch in use", id="branches.compare"),
        Binding("r", "rename", "Rename", id="branches.rename"),
    ]

    def __init__(self, branches: Sequence[BranchEntry], now: Callable[[], float] = time.time) -> None:
        """`branches` starts with the one in use."""
        self._branches = branches
        super().__init__(BranchRows(now))

    def on_mount(self) -> None:
        only = len(self._branches) == 1
        state = "/branch begins another" if only else f"{len(self._branches):,} branches"
        self.list_entries(self._branches, state)
        if not only:
            self.rows.move_to(1)

    def open_entry(self, entry: BranchEntry) -> None:
        if entry is self._branches[0]:
            self.notify("The conversation is on this branch already.", markup=False)
        else:
            self.dismiss(BranchRequest("switch", entry.name))

    def action_compare(self) -> None:
        branch = self.pointed
        if branch is None or branch is self._branches[0]:
            self.notify("Choose another branch than the one in use.", markup=False)
        else:
            self.dismiss(BranchRequest("compare", branch.name))

    @change_entry
    async def action_rename(self, branch: BranchEntry) -> None:
        if branch.name == MAIN:
            self.notify(f"The branch {MAIN} keeps its name.", markup=False)
            return
        name = await self.ask(f"New name of the branch {line(branch.name)}", branch.name)
        if name and name != branch.name:
            self.dismiss(BranchRequest("rename", branch.name, name))


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
