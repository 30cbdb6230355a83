"""The screens of the files that differ between two points of the history, and of one file's change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from agent.errors import HermesError
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind
from app.tui.screens.closable import ClosableModal
from app.tui.screens.dialog import Choices, Dialog, Hints
from app.tui.screens.entry_page import EntryRows, ListPage, load
from app.tui.screens.page import HELP, PAGE_STYLE, KeyLine, ScreenHeader, line, palette_of, words
from tools.files.diffs import diff_texts
from tools.text.words import plural
from widgets.rows.row_text import one_line, spread
from widgets.timeline.diff_rows import DiffRows
from widgets.timeline.paint import shown_path

What = Literal["both", "conversation", "files", "some"]
"""The parts that a restore brings back; with `some`, files are chosen one by one."""


@dataclass(frozen=True, slots=True)
class FileDifferenceRow:
    """The change to a file between two points. Numbers of lines are None if they were not counted."""

    path: str
    kind: Literal["added", "changed", "deleted"] = "changed"
    added: int | None = None
    removed: int | None = None
    note: str = ""
    """Further information, such as `binary` or `mode 644 → 755`."""


@dataclass(frozen=True, slots=True)
class Sides:
    """A file's text at two points; None where the file is missing or cannot be shown as text."""

    before: str | None
    after: str | None
    note: str = ""
    """The reason why a side cannot be shown; empty if both can."""


def file_line(change: FileDifferenceRow) -> Content:
    """Return a change as one line: `M src/money.py +6 −3`."""
    sign, role = SIGNS[change.kind]
    return Content.assemble(
        (sign, f"${role}"),
        f" {shown_path(change.path)} ",
        (f" +{change.added:,}" if change.added else "", "$added"),
        (f" −{change.removed:,}" if change.removed else "", "$removed"),
        (f" · {line(change.note, 120)}" if change.note else "", "$text-muted"),
    )


WHATS: tuple[What, ...] = ("both", "conversation", "files", "some")
BRING_BACK = (
    "Conversation and files",
    "Only the conversation; files stay as they are",
    "Only the files; the conversation continues from its end",
    "Some files or hunks, chosen on the next screen",
)
NOTHING = "Leave everything as it is"


class TimelinePick(Dialog[int | None]):
    """A dialog with several choices. Its result is an index; None for the last choice, to change nothing."""

    leaves = "leave everything as it is"

    def __init__(self, question: str, choices: Sequence[str]) -> None:
        super().__init__()
        self._question = question
        self._choices = choices

    def body(self) -> ComposeResult:
        yield words(self._question)
        yield Choices([*self._choices, NOTHING], chosen=len(self._choices))
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        self.dismiss(event.option_index if event.option_index < len(self._choices) else None)

    def decline(self) -> None:
        self.dismiss(None)


Point = tuple[int, str]
"""A node's id and its description."""
SIGNS = {"added": ("A", "added"), "changed": ("M", "accent"), "deleted": ("D", "removed")}
SAME = "Both points have the same files."
MOST_CHARS = 4_000_000
"""The number of characters of a file up to which it is compared."""


class FileRows(EntryRows[FileDifferenceRow]):
    """One row for each file that differs, with the numbers of lines added and removed."""

    def __init__(self) -> None:
        super().__init__(
            key=lambda file: file.path, words=lambda file: shown_path(file.path), empty="Reading …"
        )

    def draw_entry(self, entry: FileDifferenceRow, width: int) -> list[Text]:
        sign, role = SIGNS[entry.kind]
        left = Text.assemble(" ", (sign, self.ink(role)), " ", (shown_path(entry.path), self.ink("text")))
        right = Text(one_line(entry.note), self.ink("dim"))
        right.append(f" +{entry.added:,}" if entry.added else "", self.ink("added"))
        right.append(f" −{entry.removed:,}" if entry.removed else "", self.ink("removed"))
        return [spread(left, right.append(" "), width)]


class FilesScreen(ListPage[None, FileDifferenceRow]):
    """The screen of files that differ between two points."""

    CSS_PATH: ClassVar = [PAGE_STYLE, "timeline_files.tcss"]
    heading = "Files between two points"
    keys = "⏎ open · / filter · s swap the points · y copy · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "swap", "Swap the points", id="files.swap")]

    def __init__(
        self,
        difference: Callable[[int, int], Awaitable[Sequence[FileDifferenceRow]]],
        sides: Callable[[int, int, str], Awaitable[Sides]],
        one: Point,
        other: Point,
    ) -> None:
        """`difference` returns the files that differ between two nodes, `sides` a file's texts at both."""
        super().__init__(FileRows())
        self._difference = difference
        self._sides = sides
        self._points = (one, other)

    def below(self) -> list[Widget]:
        return [Static(id="files-points")]

    def on_mount(self) -> None:
        self._load()

    @load
    async def _load(self) -> None:
        (one, first), (other, second) = self._points
        self.query_one("#files-points", Static).update(
            Content.assemble(
                ("from ", "$text-muted"),
                line(first, 300) or "the beginning",
                ("\n  to ", "$text-muted"),
                line(second, 300) or "the beginning",
            )
        )
        self.state("comparing …")
        files = await self._difference(one, other)
        self.rows.empty = SAME
        added = sum(change.added or 0 for change in files)
        removed = sum(change.removed or 0 for change in files)
        self.list_entries(files, f"{plural(len(files), 'file')} +{added:,} −{removed:,}" if files else "")

    def action_swap(self) -> None:
        self._points = (self._points[1], self._points[0])
        self._load()

    @work(exclusive=True, group="open")
    async def open_entry(self, entry: FileDifferenceRow) -> None:
        (one, _), (other, _) = self._points
        screen = FileScreen(entry)
        self.app.push_screen(screen)
        try:
            sides = await self._sides(one, other, entry.path)
        except HermesError as error:
            screen.show_error(str(error))
            return
        diff, nothing = await asyncio.to_thread(diff_of, entry, sides)
        screen.show(diff, nothing)


class FileScreen(ClosableModal[None]):
    """The diff of one file: two columns on wide screens, one on others."""

    CSS_PATH: ClassVar = PAGE_STYLE
    AUTO_FOCUS = "DiffRows"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "Back", id="file.back"), HELP]
    keys: ClassVar[str] = "↑↓←→ move · w wrap · / filter · y copy · ? keys · esc back"

    def __init__(self, change: FileDifferenceRow, note: str = "", rows: DiffRows | None = None) -> None:
        """`note` follows the summary of the change in the title."""
        super().__init__()
        self._change = change
        self._note = note
        self.rows = rows or DiffRows()
        self.head = ScreenHeader(shown_path(change.path), self.title_note(figures(change)))

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.rows
        yield KeyLine(self.keys)

    def title_note(self, happened: str) -> str:
        """Return the text at the right end of the title; `happened` is the summary of the change."""
        return " · ".join(filter(None, (happened, self._note)))

    def on_mount(self) -> None:
        self.rows.use(palette_of(self.app))

    def show(self, diff: str, nothing: str) -> None:
        """Show the diff, or the reason why there is none."""
        if self.is_attached:
            self.rows.show(diff, nothing)

    def show_error(self, text: str) -> None:
        """Show why the file cannot be loaded, instead of its diff."""
        self.show("", line(text))


def figures(change: FileDifferenceRow) -> str:
    """Return a summary of the change: `+6 −3 · mode 644 → 755`. Pure."""
    lines = " ".join(
        f"{sign}{lines:,}" for sign, lines in (("+", change.added), ("−", change.removed)) if lines
    )
    return " · ".join(filter(None, (change.kind, lines, change.note)))


def diff_of(change: FileDifferenceRow, sides: Sides) -> tuple[str, str]:
    """Return the unified diff of a file, and a sentence to show if it is empty. Pure; may take long."""
    if sides.note:
        return "", sides.note
    before, after = sides.before, sides.after
    if max(len(before or ""), len(after or "")) > MOST_CHARS:
        return "", f"Too large to compare here: more than {MOST_CHARS // 1_000_000} million characters."
    path = shown_path(change.path)
    diff = diff_texts(
        before or "",
        after or "",
        "/dev/null" if before is None else f"a/{path}",
        "/dev/null" if after is None else f"b/{path}",
    )
    if before is None or after is None:
        return diff.text, f"{change.note or 'empty file'} {change.kind}".capitalize() + "."
    return diff.text, change.note or "The text is the same at both points."


READABLE = 4_000_000
"""The size in bytes up to which a file is compared."""
COUNTED = 200
"""The number of files whose lines are counted; others are listed without counts."""
_SAMPLE = 8_000

Read = Callable[[str], Awaitable[bytes]]
"""Returns stored contents by their digest. Raises `HermesError`."""


class FileChanges:
    """Describes changes to files. Line counts are cached, as different points share most of their files."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._known: dict[tuple[PathEntry | None, PathEntry | None], tuple[int, int] | str] = {}

    async def describe_all(self, changes: Sequence[PathChange]) -> list[FileDifferenceRow]:
        """Return a row for each change, with line counts for the first `COUNTED` if possible."""
        found = [await self._describe(change) for change in changes[:COUNTED]]
        return [*found, *(_plain(change) for change in changes[COUNTED:])]

    async def sides(self, change: PathChange) -> Sides:
        """Return the texts before and after a change; a problem becomes the note."""
        try:
            before, after = await self._text(change.before), await self._text(change.after)
        except HermesError as error:
            return Sides(None, None, str(error))
        note = next((each.note for each in (before, after) if each.note), "")
        return Sides(before.after, after.after, note)

    async def _describe(self, change: PathChange) -> FileDifferenceRow:
        plain = _plain(change)
        key = (change.before, change.after)
        if key not in self._known:
            sides = await self.sides(change)
            if sides.note:
                self._known[key] = sides.note
            else:
                diff = await asyncio.to_thread(diff_texts, sides.before or "", sides.after or "", "", "")
                self._known[key] = (diff.added, diff.removed)
        known = self._known[key]
        if isinstance(known, str):
            return FileDifferenceRow(plain.path, plain.kind, note=plain.note or known)
        return FileDifferenceRow(plain.path, plain.kind, *known, note=plain.note)

    async def _text(self, entry: PathEntry | None) -> Sides:
        """Return the text of an entry in the field `after`, or a note on why it has none."""
        if entry is None:
            return Sides(None, None)
        if entry.kind is PathKind.LINK:
            return Sides(None, f"{entry.target}\n")
        if entry.kind is PathKind.OTHER and entry.reason:
            return Sides(None, None, entry.reason)
        if entry.kind is not PathKind.FILE:
            return Sides(None, "")
        if entry.digest is None:
            return Sides(None, None, f"not kept: {entry.reason}")
        if entry.size > READABLE:
            return Sides(None, None, "too large to compare")
        data = await self._read(entry.digest)
        if b"\0" in data[:_SAMPLE]:
            return Sides(None, None, "binary")
        return Sides(None, await asyncio.to_thread(data.decode, "utf-8", "replace"))


def _plain(change: PathChange) -> FileDifferenceRow:
    """Return the row for a change, without counting added and removed lines. Pure."""
    return FileDifferenceRow(change.path, kind_of(change.before, change.after), note=note_of(change))


def kind_of(before: PathEntry | None, after: PathEntry | None) -> Literal["added", "changed", "deleted"]:
    """Return whether a path was added, changed or deleted. Pure."""
    return "added" if before is None else "deleted" if after is None else "changed"


def note_of(change: PathChange) -> str:
    """Return what a diff does not show: a change of kind or mode, or a special kind; else empty. Pure."""
    before, after = change.before, change.after
    one = after or before
    if one is None:
        return ""
    if one.kind is PathKind.OTHER and one.reason:
        return one.reason
    if before is None or after is None:
        return "" if one.kind is PathKind.FILE else one.kind.value
    if before.kind is not after.kind:
        return f"{before.kind.value} → {after.kind.value}"
    if before.mode != after.mode:
        return f"mode {before.mode:o} → {after.mode:o}"
    return "" if one.kind is PathKind.FILE else one.kind.value
