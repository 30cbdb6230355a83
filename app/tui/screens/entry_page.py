"""The base class of screens with a list of entries and the details of the one under the cursor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.notifications import SeverityLevel
from textual.widget import Widget
from textual.widgets import Static

from agent.errors import HermesError
from app.tui.screens.closable import ClosableModal
from app.tui.screens.page import HELP, WAYS_OUT, KeyLine, PointedRows, ScreenHeader, Skinned, SplitPage, line
from tools.text.safe_text import clean, reveal
from widgets.diff_tones import diff_tones

Entry = TypeVar("Entry")
Outcome = TypeVar("Outcome")


class EntryRows(PointedRows, Generic[Entry]):
    """One row for each entry of a list that is reloaded from time to time."""

    def __init__(self, *, key: Callable[[Entry], object], words: Callable[[Entry], str], empty: str) -> None:
        """`key` identifies an entry, `words` is the text that a filter searches."""
        super().__init__(
            lambda index, width: self.draw_entry(self.entries[index], width),
            search_text=lambda index: words(self.entries[index]),
            empty=empty,
        )
        self._key = key
        self.entries: Sequence[Entry] = ()
        """The entries that are listed."""

    def draw_entry(self, entry: Entry, width: int) -> list[Text]:
        """Return the lines of a row."""
        raise NotImplementedError

    @property
    def pointed(self) -> Entry | None:
        """The entry under the cursor."""
        return None if self.cursor is None or self.cursor >= len(self.entries) else self.entries[self.cursor]

    def show(self, entries: Sequence[Entry], at: object = None) -> None:
        """List the entries; the cursor moves to the one with the key `at`, or stays on its entry."""
        index, before = self.cursor or 0, self.pointed
        keys = [self._key(entry) for entry in entries]
        if keys == [self._key(entry) for entry in self.entries] and not self.needle:
            self.entries = entries
            self.repaint()
        else:
            self.entries = entries
            self.reset(len(entries))
        if not entries:
            return
        index = min(index, len(entries) - 1)
        wanted = at if at in keys else None if before is None else self._key(before)
        self.move_to(keys.index(wanted) if wanted in keys and keys[index] != wanted else index)


class EntryPage(SplitPage[Outcome], Generic[Outcome, Entry]):
    """A list of rows, and the details (`about`) of the entry under the cursor."""

    ways_on: str = ""
    """The keys that work without an entry, such as `a add`."""

    def __init__(self, entries: EntryRows[Entry]) -> None:
        super().__init__(entries)
        self.listed = entries
        self.loaded = False
        """True once the entries were read."""

    @property
    def pointed(self) -> Entry | None:
        """The entry under the cursor."""
        return self.listed.pointed

    def about(self, entry: Entry) -> Content:
        """Return the details of an entry."""
        raise NotImplementedError

    def beside(self) -> Iterable[Widget]:
        yield VerticalScroll(Static(id="entry-text"), id="entry", can_focus=False)

    def list_entries(self, entries: Sequence[Entry], state: str, at: object = None) -> None:
        """Show the entries, and `state` next to the title."""
        self.listed.show(entries, at)
        self.state(state)
        self.set_class(not entries, "bare")
        self.foot.say(self.keys if entries else " · ".join(filter(None, (self.ways_on, WAYS_OUT))))
        self.tell()
        self.loaded = True

    def on_pointed_rows_pointed(self, event: PointedRows.Pointed) -> None:
        event.stop()
        self.tell()

    def tell(self) -> None:
        """Update the details of the entry under the cursor."""
        entry = self.pointed
        for place in self.query("#entry-text").results(Static):
            place.update(Content("") if entry is None else self.about(entry))

    def complain(self, error: HermesError, severity: SeverityLevel = "error") -> None:
        """Show why something could not be done."""
        self.notify(line(str(error)), severity=severity, markup=False)


class DetailScreen(ClosableModal[None]):
    """A text on its own screen. It scrolls in both directions, and can be selected and copied.

    `spelled` keeps every character and spells out invisible ones, for texts that a person decides on; other
    texts are shown as a terminal would show them. `diffs` colours lines of unified diffs, which is the
    default for texts that are not spelled.
    """

    CSS_PATH: ClassVar = Path(__file__).with_name("detail.tcss")
    AUTO_FOCUS = "Reader"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "back"),
        Binding("y", "copy", "copy"),
        HELP,
    ]

    def __init__(self, title: str, text: str, *, spelled: bool = False, diffs: bool = False) -> None:
        super().__init__()
        self._title = line(title)
        show = reveal if spelled else str
        shown = text if spelled else clean(text)
        tones = diffs or not spelled
        self.reader = Skinned(shown, show, wrap=spelled, focusable=True, margin=1, diffs=tones)

    def compose(self) -> ComposeResult:
        yield ScreenHeader(self._title)
        yield self.reader
        yield KeyLine("↑↓←→ move · w wrap · y copy · esc back")

    def action_copy(self) -> None:
        self.app.copy_to_clipboard(self.get_selected_text() or clean(self.reader.text))
        self.notify("Copied.")


MOST_LINES = 60
"""Lines that are shown; a separate screen shows the whole difference."""
LONGEST = 300
"""Characters of a line that are shown."""
_TONES = {"added": "$added", "removed": "$removed", "dim": "$text-muted"}


def difference_parts(text: str, more: str) -> list[tuple[str, str]]:
    """Return the first lines of a diff with their colours; `more` says where to see the rest. Outside text.
    Pure.
    """
    lines = text.splitlines()
    tones = diff_tones(lines)
    parts = [
        (f"{_cut(each)}\n", _TONES.get(tones.get(number, ""), ""))
        for number, each in enumerate(lines[:MOST_LINES])
    ]
    if len(lines) > MOST_LINES:
        parts.append((f"… {len(lines) - MOST_LINES:,} more lines; {more}\n", "$text-muted"))
    return parts


def _cut(line: str) -> str:
    return reveal(line if len(line) <= LONGEST else f"{line[:LONGEST]}…")
