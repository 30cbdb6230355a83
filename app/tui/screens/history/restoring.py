"""The preview of a restore, where the user decides conflicts file by file."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from agent.core.store.nodes import Node
from agent.errors import HermesError
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step
from agent.workspace.checkpoints.git_words import step_apart
from agent.workspace.checkpoints.restore.hunk_restore import DividedPath, WholeError
from agent.workspace.checkpoints.restore.merge import Merged
from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.restore.ref_plan import Choice, PartialRestore, PlanItem, PlanState, Way
from agent.workspace.checkpoints.state_listings import alike
from app.tui.screens.entry_page import EntryPage, EntryRows, load
from app.tui.screens.history.timeline_files import (
    BRING_BACK,
    SIGNS,
    WHATS,
    FileDifferenceRow,
    FileScreen,
    Sides,
    TimelinePick,
    diff_of,
    file_line,
    kind_of,
    note_of,
)
from app.tui.screens.page import PAUSE, PointedRows, Skinned, SplitPage, line
from themes.states import state_glyph
from tools.text.safe_text import clean
from tools.text.words import ago, plural
from widgets.rows.reader import ReaderLook
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit, one_line, spread
from widgets.timeline.diff_rows import DiffRows, HunkRows
from widgets.timeline.paint import shown_path

FEW = 5
"""The largest number of files that are restored without a preview, if there is no conflict."""


@dataclass(frozen=True, slots=True)
class PlanWords:
    """The texts that the screen uses for the choices and their effects."""

    chosen: Mapping[Way, str]
    goes: str
    """The text for a file that is changed as planned."""
    stays: str
    """The text for a file that could be restored but is left as it is."""
    conflict: Mapping[Way, str]
    """The text for a conflict, by choice."""
    left_out: str
    """The text for a path that is not restored, because its folder is left out."""
    unmergeable: str
    taken: str
    """What happens to chosen hunks, such as `taken back`."""


RESTORE = PlanWords(
    chosen={"mine": "keep mine", "checkpoint": "take checkpoint", "merge": "merge"},
    goes="goes back to this:",
    stays="stays as it is. Going back would do this:",
    conflict={
        "mine": "Stays as it is. The checkpoint would make this of it:",
        "checkpoint": "Goes back to the checkpoint. Of what stands there now it makes this:",
        "merge": "The session's changes are taken out, all others stay:",
    },
    left_out="Take the checkpoint there (c), and this comes back.",
    unmergeable="This cannot be merged; keep yours or take the checkpoint.",
    taken="taken back",
)
MERGE = PlanWords(
    chosen={"mine": "keep mine", "checkpoint": "take theirs", "merge": "merge"},
    goes="is changed like this:",
    stays="stays as it is. The agent made this of it:",
    conflict={
        "mine": "Stays as it is. The agent's version would make this of it:",
        "checkpoint": "The agent's version is taken. Of what stands there now it makes this:",
        "merge": "The agent's changes are put into what stands there now:",
    },
    left_out="Take theirs there (t), and this comes along.",
    unmergeable="This cannot be merged; keep yours or take theirs.",
    taken="taken",
)


def needs_preview(plan: RestorePlan) -> bool:
    """Return whether the preview is required: for many files, conflicts or contents not kept."""
    return len(plan.shown_items) > FEW or len(plan.having("change")) < len(plan.items)


def restore_change(item: PlanItem) -> PathChange:
    """Return the change that a restore makes to a path: from its present entry to its earlier one."""
    return PathChange(item.path, item.now, item.target)


def plan_counts(plan: RestorePlan) -> str:
    """Return the counts of a plan: `4 files · 2 in conflict · 1 stays`."""
    states = [item.state for item in plan.shown_items]
    conflicts, lost = states.count("conflict"), states.count("lost")
    parts = [plural(len(states), "file")]
    if conflicts:
        parts.append(f"{conflicts:,} in conflict")
    if lost:
        parts.append(f"{lost:,} {'stays' if lost == 1 else 'stay'} as {'it is' if lost == 1 else 'they are'}")
    return " · ".join(parts)


def merge_text(merged: Merged | None) -> str:
    """Return how the merge of a file ends, such as `merge · 2 overlaps`."""
    if merged is None:
        return "cannot be merged"
    return "merge · " + (plural(merged.overlaps, "overlap") if merged.overlaps else "no overlap")


def hunk_count_text(taken: int, of: int, words: PlanWords = RESTORE) -> str:
    """Return how many hunks of a file were chosen, such as `1 of 3 hunks taken back`."""
    return f"{taken:,} of {plural(of, 'hunk')} {words.taken}"


def listing(plan: RestorePlan, changes: Sequence[FileDifferenceRow], most: int) -> Content:
    """Return the files that going back would change, conflicts first, in at most `most` lines."""
    if not plan.items:
        return Content.assemble(("Going back changes no file.", "$text-muted"))
    pairs = list(zip(plan.shown_items, changes, strict=True))
    pairs.sort(key=lambda pair: pair[0].state == "change")
    shown = pairs if len(pairs) < most else pairs[: max(most - 2, 0)]
    rows: list[Content] = [Content.assemble(("Going back: ", "$text-muted"), (plan_counts(plan), "bold"))]
    rows += [_row(item, change) for item, change in shown]
    if len(shown) < len(pairs):
        rows.append(Content.assemble((f"… {plural(len(pairs) - len(shown), 'more file')}", "$text-muted")))
    return Content("\n").join(rows)


def _row(item: PlanItem, change: FileDifferenceRow) -> Content:
    if item.state == "change":
        return file_line(change)
    sign, role = state_glyph("needs you" if item.state == "conflict" else "failed")
    return Content.assemble(
        (sign, f"${role}"), f" {shown_path(item.path)} ", (f" {line(item.reason, 200)}", "$text-muted")
    )


class HunkScreen(FileScreen):
    """The hunks of a file, each of which is taken or left; `chosen` is called after each choice."""

    keys: ClassVar[str] = "space take or leave · ] [ next hunk · + take all · - leave all · ? keys · esc done"

    def __init__(
        self,
        change: FileDifferenceRow,
        divided: DividedPath,
        taken: Collection[int],
        chosen: Callable[[frozenset[int]], object],
        words: PlanWords = RESTORE,
    ) -> None:
        self._words = words
        self._hunks = HunkRows(taken)
        self._divided = divided
        super().__init__(change, rows=self._hunks)
        self._chosen = chosen

    def on_mount(self) -> None:
        self._load()

    @work
    async def _load(self) -> None:
        name = shown_path(self._change.path)
        self.show(await asyncio.to_thread(self._divided.hunks.diff, name), "")

    def title_note(self, happened: str) -> str:
        return hunk_count_text(len(self._hunks.taken), len(self._divided.hunks), self._words)

    def on_hunk_rows_chosen(self, event: HunkRows.Chosen) -> None:
        event.stop()
        self.head.say(self.title_note(""))
        self._chosen(event.taken)


@dataclass(frozen=True, slots=True)
class RestoreServices:
    """The functions that the screen calls; each raises `HermesError`."""

    describe: Callable[[Sequence[PathChange]], Awaitable[Sequence[FileDifferenceRow]]]
    """Returns changes as rows with line counts."""
    sides: Callable[[PathChange], Awaitable[Sides]]
    """Returns both sides of a change."""
    merge: Callable[[PlanItem], Awaitable[Merged | None]]
    """Merges both sides of a conflict; returns None if they cannot be merged."""
    divide: Callable[[PlanItem, bool], Awaitable[DividedPath]]
    """Splits a file, or with the flag its merge, into hunks. Raises `WholeError` if it cannot be split."""


class PlanRows(PointedRows):
    """One row per path: its change, and the choice if the path was changed elsewhere."""

    def __init__(self, items: Sequence[PlanItem], choices: Mapping[str, Choice], words: PlanWords) -> None:
        super().__init__(
            self._row, search_text=lambda at: shown_path(self.items[at].path), empty="Nothing would change."
        )
        self.items = items
        self._words = words
        self.choices: dict[str, Choice] = dict(choices)
        self.merges: dict[str, Merged | None] = {}
        self.parts: dict[str, DividedPath] = {}
        """Files split into hunks, as chosen."""
        self._changes: Mapping[int, FileDifferenceRow] = {}
        self._folders = {item.path: item for item in items if _makes_folder(item)}
        self.reset(len(items))

    def show_line_counts(self, changes: Sequence[FileDifferenceRow]) -> None:
        """Show the line counts of the changes."""
        self._changes = dict(enumerate(changes))
        self.repaint()

    def choice(self, item: PlanItem) -> Choice:
        """Return the choice for a path; by default a conflict stays, and other paths are restored."""
        return self.choices.get(item.path, "mine" if item.state == "conflict" else "checkpoint")

    def way(self, item: PlanItem) -> Way:
        """Return the choice for a path, ignoring which of its hunks are chosen."""
        choice = self.choice(item)
        if isinstance(choice, PartialRestore):
            return "merge" if choice.merging else "checkpoint"
        return choice

    def omitted_folder(self, item: PlanItem) -> str:
        """Return the folder whose omission keeps the path from being restored; empty if there is none."""
        if item.target is None or item.state == "lost" or self.choice(item) == "mine":
            return ""
        for above in PurePosixPath(item.path).parents:
            folder = self._folders.get(str(above))
            if folder is not None and (folder.state == "lost" or self.choice(folder) == "mine"):
                return folder.path
        return ""

    def _row(self, index: int, width: int) -> list[Text]:
        item, change = self.items[index], self._changes.get(index)
        if item.state == "change":
            sign, role = SIGNS[change.kind] if change else ("·", "dim")
        else:
            sign, role = state_glyph("needs you" if item.state == "conflict" else "failed")
        left = Text.assemble(" ", (sign, self.ink(role)), " ", (shown_path(item.path), self.ink("text")))
        return [spread(left, self._right(item, change).append(" "), width)]

    def _right(self, item: PlanItem, change: FileDifferenceRow | None) -> Text:
        choice = self.choice(item)
        if item.state == "lost":
            return Text("stays as it is", self.ink("dim"))
        if self.omitted_folder(item):
            return Text("stays out with its folder", self.ink("warning"))
        if isinstance(choice, PartialRestore):
            divided = self.parts.get(item.path)
            of = f" of {len(divided.hunks):,}" if divided else ""
            return Text(f"{len(choice.hunks):,}{of} hunks", self.ink("accent"))
        if item.state == "change" and choice == "mine":
            return Text("stays as it is", self.ink("dim"))
        if item.state == "conflict":
            words = self._words.chosen[choice]
            if choice == "merge" and item.path in self.merges:
                words = merge_text(self.merges[item.path])
            return Text(words, self.ink("dim" if choice == "mine" else "accent"))
        right = Text(one_line(change.note) if change else "", self.ink("dim"))
        if change:
            right.append(f" +{change.added:,}" if change.added else "", self.ink("added"))
            right.append(f" −{change.removed:,}" if change.removed else "", self.ink("removed"))
        return right


def _makes_folder(item: PlanItem) -> bool:
    """Return whether the item creates a folder."""
    is_folder = item.now is not None and item.now.kind is PathKind.FOLDER
    return item.target is not None and item.target.kind is PathKind.FOLDER and not is_folder


class RestoringScreen(SplitPage[Mapping[str, Choice] | None]):
    """The preview of a restore. Its result is the choice for each file, or None to do nothing."""

    heading = "Files to restore"
    words: ClassVar[PlanWords] = RESTORE
    every: ClassVar[bool] = False
    """True if a choice for all also applies to files without a conflict."""
    keys = "⏎ hunks · a carry out · 1 mine · 2 checkpoint · 3 both · ? keys · esc cancel"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "carry_out", "Carry out", id="restoring.carry_out"),
        Binding("1,m", "choose('mine')", "Keep mine", id="restoring.mine"),
        Binding("2,c", "choose('checkpoint')", "Take the checkpoint", id="restoring.checkpoint"),
        Binding("3,b", "choose('merge')", "Merge both", id="restoring.merge"),
        Binding("4,M", "choose_all('mine')", "Keep all of mine", id="restoring.all_mine"),
        Binding("5,C", "choose_all('checkpoint')", "Take all checkpoints", id="restoring.all_checkpoint"),
    ]

    def __init__(
        self, plan: RestorePlan, services: RestoreServices, choices: Mapping[str, Choice] | None = None
    ) -> None:
        """`choices` are those made before, if the files changed while this screen was open."""
        order = {"conflict": 0, "lost": 1, "change": 2}
        self._plan = plan
        self._list = PlanRows(
            sorted(plan.shown_items, key=lambda item: order[item.state]), choices or {}, self.words
        )
        super().__init__(self._list)
        self._services = services
        self._diff = DiffRows()
        self._merging = 0
        self._together = asyncio.Event()
        """Set while no merge is being computed."""
        self._together.set()
        self._wished: set[str] = set()
        """Paths whose last choice was a merge."""

    def beside(self) -> Iterable[Widget]:
        yield Static(id="split-about")
        yield self._diff

    def on_mount(self) -> None:
        self.state(plan_counts(self._plan))
        self._count()

    def _apply_skin(self) -> None:
        super()._apply_skin()
        self._diff.use(self._list.palette)

    def _having(self, state: PlanState) -> list[PlanItem]:
        return [item for item in self._list.items if item.state == state]

    @property
    def choices(self) -> dict[str, Choice]:
        """Return the choices for all conflicts, and for other files whose choice was changed."""
        chosen = dict(self._list.choices)
        chosen.update((item.path, self._list.choice(item)) for item in self._having("conflict"))
        return chosen

    @work(group="count")
    async def _count(self) -> None:
        try:
            self._list.show_line_counts(
                await self._services.describe([restore_change(item) for item in self._list.items])
            )
        except HermesError as error:
            self.state(str(error))

    # The path under the cursor

    def on_pointed_rows_pointed(self, event: PointedRows.Pointed) -> None:
        self._look(event.index)

    @work(exclusive=True, group="look")
    async def _look(self, index: int | None) -> None:
        about = self.query_one("#split-about", Static)
        if index is None:
            about.update(Content(""))
            self._diff.show("", "")
            return
        item = self._list.items[index]
        about.update(self._about(item))
        await asyncio.sleep(PAUSE)
        diff, nothing = await self._difference(item)
        about.update(self._about(item))
        self._diff.show(diff, nothing)

    async def _difference(self, item: PlanItem) -> tuple[str, str]:
        """Return a path's change as a diff, and a sentence to show if the diff is empty."""
        if item.state == "lost":
            return "", ""
        whole = restore_change(item)
        kind = kind_of(whole.before, whole.after)
        change = FileDifferenceRow(item.path, kind, note=note_of(whole))
        choice = self._list.choice(item)
        try:
            sides = await self._services.sides(whole)
            if isinstance(choice, PartialRestore):
                taken = await asyncio.to_thread(
                    (await self._load_hunks(item)).hunks.content_with, choice.hunks
                )
                sides = Sides(sides.before, taken.decode("utf-8", "replace"))
            elif item.state == "conflict" and choice == "merge":
                merged = await self._load_merge(item)
                if merged is None:
                    return "", "These two cannot be put together: one is not text, or is not there."
                sides = Sides(sides.before, merged.data.decode("utf-8", "replace"))
        except HermesError as error:
            return "", line(str(error))
        return await asyncio.to_thread(diff_of, change, sides)

    async def _load_hunks(self, item: PlanItem) -> DividedPath:
        """Return the hunks of a file, loaded at the first request. Raises `HermesError`."""
        merging = self._list.way(item) == "merge"
        known = self._list.parts.get(item.path)
        if known is None or known.merging != merging:
            known = self._list.parts[item.path] = await self._services.divide(item, merging)
            self._list.repaint()
        return known

    async def _load_merge(self, item: PlanItem) -> Merged | None:
        if item.path not in self._list.merges:
            self._list.merges[item.path] = await self._services.merge(item)
            self._list.repaint()
        return self._list.merges[item.path]

    def _about(self, item: PlanItem) -> Content:
        """Return the lines above the diff: what happens to the path, and why."""
        if item.state == "lost":
            return Content.assemble(("Stays as it is: ", "$error"), line(item.reason))
        if folder := self._list.omitted_folder(item):
            out = f"Stays out with {shown_path(folder)}/, which is left."
            return Content.assemble((out, "$warning"), f"\n{self.words.left_out}")
        choice = self._list.choice(item)
        if isinstance(choice, PartialRestore):
            divided = self._list.parts.get(item.path)
            of = len(divided.hunks) if divided else len(choice.hunks)
            some = hunk_count_text(len(choice.hunks), of, self.words)
            return Content.assemble((shown_path(item.path), "bold"), (f" · {some}:", "$text-muted"))
        if item.state == "change":
            does = self.words.stays if choice == "mine" else self.words.goes
            return Content.assemble((shown_path(item.path), "bold"), (f" {does}", "$text-muted"))
        words = self.words.conflict[choice]
        merged = self._list.merges.get(item.path)
        if self._list.choice(item) == "merge" and merged is not None and merged.overlaps:
            words = f"{plural(merged.overlaps, 'overlap')}: both versions stand between marks in the file:"
        return Content.assemble((f"{line(item.reason).capitalize()}.", "$warning"), f"\n{words}")

    # Actions

    def action_choose(self, choice: Way) -> None:
        item = None if self._list.cursor is None else self._list.items[self._list.cursor]
        if item is None or item.state == "lost":
            self.notify("There is nothing to choose here: this stays as it is.", markup=False)
        elif choice != "merge":
            self._choose(item, choice)
            self._wished.discard(item.path)
        elif item.state != "conflict":
            self.notify("Nobody else changed this, so there is nothing to merge.", markup=False)
        else:
            self._wished.add(item.path)
            self._merging += 1
            self._together.clear()
            self._merge(item)

    @work(group="merge")
    async def _merge(self, item: PlanItem) -> None:
        unmergeable = await self._cannot_merge(item)
        self._merging -= 1
        if unmergeable:
            self.notify(self.words.unmergeable, markup=False)
        elif item.path in self._wished:
            self._choose(item, "merge")
        if not self._merging:
            self._together.set()

    def _choose(self, item: PlanItem, choice: Way) -> None:
        self._list.choices[item.path] = choice
        self._list.repaint()
        self._look(self._list.cursor)

    async def _cannot_merge(self, item: PlanItem) -> bool:
        try:
            return await self._load_merge(item) is None
        except HermesError:
            return True

    def action_choose_all(self, choice: Way) -> None:
        for item in self._list.items if self.every else self._having("conflict"):
            self._list.choices[item.path] = choice
        self._wished.clear()
        self._list.repaint()
        self._look(self._list.cursor)

    @work(exclusive=True, group="carry")
    async def action_carry_out(self) -> None:
        # A choice made by an earlier key counts.
        await self._together.wait()
        self.dismiss(self.choices)

    @work(exclusive=True, group="open")
    async def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        if event.rows is not self._list:
            return
        item = self._list.items[event.index]
        change, *_ = await self._services.describe([restore_change(item)])
        try:
            divided = await self._load_hunks(item)
        except HermesError as error:
            diff, nothing = await self._difference(item)
            whole = isinstance(error, WholeError)
            screen = FileScreen(change, "as a whole" if whole and item.state != "lost" else "")
            await self.app.push_screen(screen)
            screen.show(diff, line(str(error)) if whole else nothing)
            return

        def take(taken: frozenset[int]) -> None:
            self._take(item, divided, taken)

        self.app.push_screen(
            HunkScreen(change, divided, self._hunks_to_restore(item, divided), take, self.words)
        )

    def _hunks_to_restore(self, item: PlanItem, divided: DividedPath) -> Collection[int]:
        """Return the numbers of the hunks to restore."""
        choice = self._list.choice(item)
        if isinstance(choice, PartialRestore):
            return choice.hunks
        return () if choice == "mine" else range(1, len(divided.hunks) + 1)

    def _take(self, item: PlanItem, divided: DividedPath, taken: frozenset[int]) -> None:
        """Restore exactly the hunks `taken` of a file."""
        choice: Choice = "mine"
        if len(taken) == len(divided.hunks):
            choice = "merge" if divided.merging else "checkpoint"
        elif taken:
            choice = divided.part(taken)
        self._list.parts[item.path] = divided
        self._list.choices[item.path] = choice
        self._list.repaint()
        self._look(self._list.cursor)


@dataclass(frozen=True, slots=True)
class SaidMessage:
    """A message of the user that can be taken back."""

    node: int
    text: str
    created: float
    """The time of the message, in seconds since the epoch."""
    step: int
    """The number of the step after which it was sent: a state of the files."""
    files: int
    """The number of files that this session has changed since."""


@dataclass(frozen=True, slots=True)
class RewindTarget:
    """The point to go back to, and the parts to restore: conversation, files or both."""

    node: int
    step: int
    files: bool
    conversation: bool
    look: bool = False
    """True if the preview is shown in any case, so that files can be deselected."""


def back_with(node: int, step: int, what: str) -> RewindTarget:
    """Return the target for `both`, the `conversation`, the `files`, or `some` files from the preview."""
    return RewindTarget(node, step, what != "conversation", what in ("both", "conversation"), what == "some")


def user_messages(path: Sequence[Node], steps: Sequence[Step]) -> list[SaidMessage]:
    """Return the user's messages on a path, newest first."""
    places: list[tuple[Node, int]] = []
    position = 0
    for node in path:
        step = node.data.get("step")
        position = step if isinstance(step, int) else position
        if node.kind == "user" and node.data.get("origin") != "engine":
            places.append((node, position))
    since = _Since([step for step in steps if step.kind != "outside"])
    return [
        SaidMessage(node.id, node.content, node.created, step, since.back_to(step))
        for node, step in reversed(places)
    ]


class _Since:
    """Counts the paths that differ from earlier and earlier positions, visiting each step once.

    Positions must be given in descending order.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._left = len(steps)
        self._last: dict[str, PathEntry | None] = {}
        self._different: set[str] = set()
        self._git: set[str] = set()
        """Changed files internal to git, which count as one."""

    def back_to(self, position: int) -> int:
        while self._left and self._steps[self._left - 1].number > position:
            self._left -= 1
            step = self._steps[self._left]
            git = {change.path for change in step_apart(step).git}
            for change in reversed(step.changes):
                different = self._git if change.path in git else self._different
                last = self._last.setdefault(change.path, change.after)
                if alike(change.before, last):
                    different.discard(change.path)
                else:
                    different.add(change.path)
        return len(self._different) + bool(self._git)


EMPTY = "You have said nothing on this branch yet. What you send can be taken back here."
NOT_KEPT = "Only the conversation goes back; files are not kept."
SHOWN_CHARS = 20_000
"""The number of characters of a message that are shown beside the list."""
FILE_LINES = 200
COUNTED_ROWS = 40
"""The number of messages whose changed lines are counted before they are selected."""


@dataclass(frozen=True, slots=True)
class RewindServices:
    """The functions that the screen calls; each raises `HermesError`."""

    said: Callable[[], Awaitable[Sequence[SaidMessage]]]
    """Returns the user's messages on the branch in use, newest first."""
    changes: Callable[[int], Awaitable[Sequence[PathChange]]]
    """Returns the session's file changes since a position of the history."""
    plan: Callable[[int], Awaitable[RestorePlan]] | None
    """Returns the plan to restore a position; None if files are not kept."""
    describe: Callable[[Sequence[PathChange]], Awaitable[Sequence[FileDifferenceRow]]]
    """Returns changes as rows with line counts."""


class SaidRows(EntryRows[SaidMessage]):
    """One row per message: its first line, the number of files changed since, and its time."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(
            key=lambda said: said.node, words=lambda said: one_line(said.text, 2_000), empty="Reading …"
        )
        self._lines: dict[int, tuple[int, int]] = {}
        self._now = now

    def show_line_counts(self, index: int, added: int, removed: int) -> None:
        """Show the numbers of lines added and removed since a message."""
        self._lines[self.entries[index].node] = (added, removed)
        self.update_row(index)

    def draw_entry(self, entry: SaidMessage, width: int) -> list[Text]:
        sign, said = f"{self.palette.prompt_symbol} ", one_line(entry.text) or "–"
        left = Text.assemble(" ", (sign, self.ink("user")), (said, self.ink("text")))
        right = Text()
        if entry.files:
            right.append(f"± {plural(entry.files, 'file')}", self.ink("dim"))
            added, removed = self._lines.get(entry.node, (0, 0))
            right.append(f" +{added:,}" if added else "", self.ink("added"))
            right.append(f" −{removed:,}" if removed else "", self.ink("removed"))
        right.append(f"{ago(self._now() - entry.created):>8} ", self.ink("dim"))
        return [spread(left, fit(right, width * 2 // 3), width)]


class RewindScreen(EntryPage[RewindTarget | None, SaidMessage]):
    """The list of the user's messages. Its result is the point to go back to, or None."""

    heading = "Go back to before …"
    keys = "⏎ choose · ↑↓ move · / filter · y copy · ? keys · esc stay here"

    def __init__(self, services: RewindServices, now: Callable[[], float] = time.time) -> None:
        self._said = SaidRows(now)
        super().__init__(self._said)
        self._services = services

    def beside(self) -> Iterable[Widget]:
        yield Static(id="split-files")
        with Vertical(id="split-text"):
            yield Skinned("", look=ReaderLook(margin=0))

    def on_mount(self) -> None:
        self._load()

    @load
    async def _load(self) -> None:
        said = await self._services.said()
        self.rows.empty = EMPTY
        self.list_entries(said, f"{plural(len(said), 'message')} of yours on this branch" if said else "")
        for index, each in enumerate(said[:COUNTED_ROWS]):
            if each.files:
                await self._count(index, each)

    async def _count(self, index: int, said: SaidMessage) -> None:
        try:
            files = await self._services.describe(await self._services.changes(said.step))
        except HermesError:
            # Rows then show how many files changed, without counts of lines.
            return
        self._said.show_line_counts(
            index, sum(f.added or 0 for f in files), sum(f.removed or 0 for f in files)
        )

    @work(exclusive=True, group="look")
    async def show_details(self) -> None:
        """Show the message under the cursor, and the effect on files of going back to it."""
        files = self.query_one("#split-files", Static)
        text = self.query_one(Skinned)
        said = self.pointed
        if said is None:
            text.read("")
            files.update(Content(""))
            return
        text.read(clean(said.text[:SHOWN_CHARS]))
        if self._services.plan is None:
            files.update(Content.assemble((NOT_KEPT, "$text-muted")))
            return
        await asyncio.sleep(PAUSE)
        try:
            plan = await self._services.plan(said.step)
            changes = await self._services.describe([restore_change(item) for item in plan.shown_items])
        except HermesError as error:
            files.update(Content.assemble((line(str(error)), "$warning")))
            return
        files.update(listing(plan, changes, FILE_LINES))

    @work(exclusive=True, group="act")
    async def open_entry(self, entry: SaidMessage) -> None:
        if self._services.plan is None:
            self.dismiss(RewindTarget(entry.node, entry.step, files=False, conversation=True))
            return
        question = f"Choose what goes back to before “{line(entry.text, 200)}”"
        chosen = await self.app.push_screen_wait(TimelinePick(question, BRING_BACK))
        if chosen is not None:
            what = WHATS[chosen]
            self.dismiss(back_with(entry.node, entry.step, what))
