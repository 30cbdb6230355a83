"""Two branches side by side: where they fork, the messages of each, and the files that differ."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from agent.core.store.branches import OutlineRow
from agent.core.store.nodes import MAIN, BranchHead, first_line
from agent.errors import HermesError
from agent.session.history.branch_comparison import BranchComparison, BranchSide
from agent.workspace.checkpoints.entries import PathChange
from agent.workspace.checkpoints.restore.hunk_restore import DividedPath
from agent.workspace.checkpoints.restore.ref_plan import PlanItem
from app.tui.conversation.replay import newest_first
from app.tui.screens.dialog import DetailScreen
from app.tui.screens.entry_page import EntryRows, ListPage, change_entry, load
from app.tui.screens.history.restoring import RestoreServices, RewindServices, SaidMessage
from app.tui.screens.history.timeline_files import (
    SIGNS,
    FileChanges,
    FileDifferenceRow,
    FileScreen,
    Sides,
    diff_of,
)
from app.tui.screens.page import Page, line
from themes.states import IN_USE, glyph, state_of
from tools.text.safe_text import clean
from tools.text.words import ago, plural
from widgets.panes import status
from widgets.rows.row_list import ReadingRows, RowList
from widgets.rows.row_text import fit, one_line, spread
from widgets.timeline.paint import shown_path
from widgets.transcript.parts import AnswerItem, CallItem, Item, NoticeItem, UserItem, source_of

if TYPE_CHECKING:
    from agent.api.session import SessionClient


@dataclass(frozen=True, slots=True)
class BranchEntry:
    """A branch in the list."""

    name: str
    node: int | None
    """The id of the last node; None while the branch is empty."""
    last: str
    """The user's last message on the branch."""
    said: int
    """The number of the user's messages on the branch."""
    updated: float
    """The time of the last change, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class BranchRequest:
    """An action on a branch that the user chose in the list."""

    act: Literal["switch", "rename", "compare"]
    branch: str
    name: str = ""
    """The new name, for `rename`."""


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


NOTHING = "Nothing was said on either branch since."
SAME_FILES = "Both branches have the same files."


@dataclass(frozen=True, slots=True)
class CompareTitle:
    """The title of a section of the comparison."""

    text: str
    right: str = ""


@dataclass(frozen=True, slots=True)
class CompareSentence:
    """A sentence about both branches, across both columns."""

    text: str


@dataclass(frozen=True, slots=True)
class WordPair:
    """A text about the left branch next to one about the right branch."""

    left: str
    right: str
    role: str = "text"


@dataclass(frozen=True, slots=True)
class CompareMessages:
    """One message of each branch; None if a branch has no more."""

    left: Item | None
    right: Item | None


Row = CompareTitle | CompareSentence | WordPair | CompareMessages | FileDifferenceRow


class CompareRows(ReadingRows):
    """The rows of a comparison: one column per branch; files span both columns."""

    def __init__(self) -> None:
        super().__init__(self._draw_row, search_text=self._plain, empty="Comparing …")
        self.all: Sequence[Row] = ()

    def show(self, rows: Sequence[Row]) -> None:
        """Replace the rows of the comparison."""
        self.all = rows
        self.reset(len(rows))

    def _plain(self, index: int) -> str:
        match self.all[index]:
            case FileDifferenceRow(path=path):
                return shown_path(path)
            case CompareMessages(left, right):
                return f"{words_of(left)}\n{words_of(right)}"
            case WordPair(left, right):
                return f"{left}  {right}"
            case CompareTitle(text, right):
                return f"{text}  {right}"
            case CompareSentence(text):
                return text

    def _draw_row(self, index: int, width: int) -> list[Text]:
        match self.all[index]:
            case CompareTitle(text, right):
                title = Text(f" {text}", self.ink("accent", bold=True))
                return [Text(" "), spread(title, Text(f"{right} ", self.ink("dim")), width)]
            case CompareSentence(text):
                return [fit(Text(f" {text}", self.ink("dim")), width - 1)]
            case WordPair(left, right, role):
                style = self.ink(role, bold=role == "accent")
                return [self._beside(Text(left, style), Text(right, style), width)]
            case CompareMessages(left, right):
                return [self._beside(self._words(left), self._words(right), width)]
            case change:
                return [self._file(change, width)]

    def _beside(self, left: Text, right: Text, width: int) -> Text:
        half = (width - 3) // 2
        left = fit(left, half - 1)
        gap = " " * (half - left.cell_len)
        return Text.assemble(" ", left, gap, ("│ ", self.ink("rule")), fit(right, width - half - 4))

    def _words(self, item: Item | None) -> Text:
        match item:
            case None:
                return Text()
            case UserItem():
                sign = f"{self.palette.prompt_symbol} "
                return Text.assemble((sign, self.ink("user")), (words_of(item), self.ink("text")))
            case CallItem(outcome=outcome):
                state = state_of(outcome, item.display.exit_code)
                return Text.assemble(
                    (f"{state.glyph} ", self.ink(state.role)), (words_of(item), self.ink("dim"))
                )
            case NoticeItem():
                return Text.assemble(("┊ ", self.ink("dim")), (words_of(item), self.ink("dim")))
            case _:
                return Text.assemble("  ", (words_of(item), self.ink("text")))

    def _file(self, change: FileDifferenceRow, width: int) -> Text:
        sign, role = SIGNS[change.kind]
        left = Text.assemble(" ", (sign, self.ink(role)), " ", (shown_path(change.path), self.ink("text")))
        right = Text(one_line(change.note), self.ink("dim"))
        right.append(f" +{change.added:,}" if change.added else "", self.ink("added"))
        right.append(f" −{change.removed:,}" if change.removed else "", self.ink("removed"))
        return spread(left, right.append(" "), width)


def words_of(item: Item | None) -> str:
    """Return an item as one line; empty for kinds that are not compared."""
    match item:
        case UserItem(text=text) | AnswerItem(text=text) | NoticeItem(text=text):
            return one_line(first_line(text))
        case CallItem(display=display):
            return one_line(" ".join(filter(None, (display.verb, display.subject, display.summary))))
        case _:
            return ""


def rows_of(
    compared: BranchComparison,
    left: Sequence[Item],
    right: Sequence[Item],
    files: Sequence[FileDifferenceRow],
) -> Iterator[Row]:
    """Yield all rows, top to bottom. `left` and `right` are the items that only one branch has."""
    parting = compared.parting
    words = clean(first_line(parting.content)) if parting is not None else ""
    yield CompareSentence(
        f"They part after “{one_line(words, 200)}”" if words else "They part at the beginning"
    )
    yield WordPair(f"↳ {one_line(compared.left.head)}", f"↳ {one_line(compared.right.head)}", "accent")
    for figure in (_message_figures, _token_figures, _check_figures):
        yield WordPair(figure(compared.left), figure(compared.right), "dim")
    yield CompareTitle("Messages")
    if not left and not right:
        yield CompareSentence(NOTHING)
    for pair in zip_longest(left, right):
        yield CompareMessages(*pair)
    added, removed = sum(f.added or 0 for f in files), sum(f.removed or 0 for f in files)
    total = f"{plural(len(files), 'file')} +{added:,} −{removed:,}" if files else ""
    yield CompareTitle(f"Files, from {compared.left.head} to {compared.right.head}", total)
    if not files:
        yield CompareSentence(SAME_FILES)
    yield from files


def _message_figures(side: BranchSide) -> str:
    asked = sum(node.kind == "user" and node.data.get("origin") != "engine" for node in side.nodes)
    calls = sum(node.kind == "tool" for node in side.nodes)
    return f"{plural(asked, 'message')} of yours · {plural(calls, 'call')}"


def _token_figures(side: BranchSide) -> str:
    read, written = (status.UNKNOWN if n is None else status.tokens(n) for n in (side.read, side.written))
    return f"{read} tokens in · {written} out · {status.money(side.cost)}"


def _check_figures(side: BranchSide) -> str:
    if side.tests is None:
        return "no tests were run"
    sign = glyph("done" if side.tests.outcome == "passed" else "exit")
    return f"{sign} {one_line(side.tests.outcome)}: {one_line(side.tests.command)}"


@dataclass(frozen=True, slots=True)
class CompareServices:
    """The functions that the screen calls; each raises `HermesError`."""

    compare: Callable[[], Awaitable[tuple[BranchComparison, Sequence[Item], Sequence[Item]]]]
    """Returns the comparison, and the items that only one branch has."""
    describe: Callable[[Sequence[PathChange]], Awaitable[Sequence[FileDifferenceRow]]]
    """Returns changes as rows with line counts."""
    sides: Callable[[PathChange], Awaitable[Sides]]
    """Returns a file's text on both branches."""


class CompareScreen(Page[None]):
    """A read-only comparison of two branches."""

    heading = "Two branches"
    keys = "⏎ open · ↑↓ move · / filter · n next match · y copy · ? keys · esc back"

    def __init__(self, services: CompareServices) -> None:
        self._list = CompareRows()
        super().__init__(self._list)
        self._services = services
        self._changes: dict[str, PathChange] = {}

    def on_mount(self) -> None:
        self._load()

    @load
    async def _load(self) -> None:
        self.state("comparing …")
        compared, left, right = await self._services.compare()
        files = await self._services.describe(compared.files)
        self._changes = {change.path: change for change in compared.files}
        rows = list(rows_of(compared, left, right, files))
        self._list.show(rows)
        self._list.move_to(next((n for n, row in enumerate(rows) if isinstance(row, CompareMessages)), 0))
        self.state("")

    @work(exclusive=True, group="open")
    async def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        match self._list.all[event.index]:
            case FileDifferenceRow() as change:
                screen = FileScreen(change)
                await self.app.push_screen(screen)
                try:
                    sides = await self._services.sides(self._changes[change.path])
                except HermesError as error:
                    screen.show_error(str(error))
                    return
                screen.show(*await asyncio.to_thread(diff_of, change, sides))
            case CompareMessages(left, right):
                both = [source_of(item) for item in (left, right) if item is not None]
                self.app.push_screen(DetailScreen("On both branches", f"\n\n{'─' * 40}\n\n".join(both)))
            case _:
                pass


def restore_services(client: SessionClient) -> RestoreServices:
    """Return the functions that the restore preview calls."""
    history = client.history
    files = FileChanges(history.contents)

    async def load_hunks(item: PlanItem, merging: bool) -> DividedPath:
        return await history.split_hunks(item, merging=merging)

    return RestoreServices(files.describe_all, files.sides, history.merge_conflict, load_hunks)


def rewind_services(
    said: Callable[[], Awaitable[Sequence[SaidMessage]]], client: SessionClient
) -> RewindServices:
    """Return the functions that the list of messages to go back to calls."""
    history = client.history
    files = FileChanges(history.contents)

    async def changes(position: int) -> Sequence[PathChange]:
        return await history.changes(position, (await history.place()).step)

    plan = history.plan if client.keeps_files else None
    return RewindServices(said, changes, plan, files.describe_all)


def compare_services(client: SessionClient, left: str, right: str) -> CompareServices:
    """Return the functions that the screen calls to compare two branches, given by name."""
    from tools.registry import registry

    files = FileChanges(client.history.contents)

    async def compare_branches() -> tuple[BranchComparison, Sequence[Item], Sequence[Item]]:
        found = await client.compare(left, right)
        return (
            found,
            list(newest_first(found.left.nodes, registry))[::-1],
            list(newest_first(found.right.nodes, registry))[::-1],
        )

    return CompareServices(compare_branches, files.describe_all, files.sides)
