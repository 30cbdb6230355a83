"""The palette: all commands, most recently used first, found by their names, keywords and descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from app.tui.screens.closable import ClosableModal
from app.tui.screens.page import Field, KeyLine, line, palette_of
from widgets.prompt.completion import hits, match_rank
from widgets.rows.row_list import HeadedRows, RowList
from widgets.rows.row_text import fit, one_line, spread

RECENT = "Recent"
LOW = 10
"""The number of rows of a screen below which only the input and the list are shown."""
NAME_CELLS, SLASH_CELLS, KEY_CELLS = 34, 14, 10
NARROW = 120
"""The width in cells below which the description has a line of its own below the list."""
BACK = "esc back"
KEYS = f"⏎ run · ↑↓ choose · {BACK}"
WORD_ABOUT = 100
"""The penalty in rank of a match in the description compared with one in the name."""


class PaletteEntry(NamedTuple):
    """A command or skill, or the title of a group if the name is empty."""

    group: str
    name: str = ""
    about: str = ""
    run: Callable[[], object] = lambda: None
    words: tuple[str, ...] = ()
    """The slash command and its aliases."""
    keys: str = ""


def find_entries(entries: Sequence[PaletteEntry], query: str) -> list[PaletteEntry]:
    """Return the entries that match every word of `query`, best first; all by group if it is empty. Pure."""
    words = query.lower().split()
    if not words:
        return [*with_groups(entries)]
    ranked = []
    for place, each in enumerate(entries):
        ranks = [_rank(each, word) for word in words]
        # The entries used last are among the others as well.
        if each.group != RECENT and None not in ranks:
            ranked.append((sum(rank or 0 for rank in ranks), place))
    return [entries[place] for _, place in sorted(ranked)]


def with_groups(entries: Sequence[PaletteEntry]) -> Iterator[PaletteEntry]:
    """Yield the entries with a title before each group."""
    group = ""
    for each in entries:
        if each.group != group:
            group = each.group
            yield PaletteEntry(group)
        yield each


def _rank(entry: PaletteEntry, word: str) -> int | None:
    """Return the rank of an entry for one word, 0 being best; None if it does not match."""
    found = [match_rank(each, each, word) for each in (entry.name.lower(), *entry.words)]
    # A sentence contains nearly any letters in order, so only an unbroken match counts.
    at = entry.about.lower().find(word)
    if at >= 0:
        found.append(WORD_ABOUT + (at > 0 and entry.about[at - 1].isalnum()))
    return min((each for each in found if each is not None), default=None)


class PaletteRows(HeadedRows, can_focus=False):
    """The entries found, a line each: name, description, slash command, and keys at the right edge.

    `tell` receives the description of the entry under the cursor, for which a narrow list has no room.
    """

    def __init__(self, entries: Sequence[PaletteEntry], tell: Callable[[str], None]) -> None:
        self._all = entries
        self._tell = tell
        self._query = ""
        self.entries: Sequence[PaletteEntry] = ()
        super().__init__(self._lines, empty="Nothing has this name.", background="surface")
        self.lit, self.margin = True, 2
        self.find("")

    def find(self, query: str) -> None:
        """List the entries that match a query."""
        self._query = query.strip()
        self.entries = find_entries(self._all, query)
        self.reset(len(self.entries))
        self.action_first()

    def cursor_moved(self) -> None:
        super().cursor_moved()
        at = self.cursor
        self._tell("" if at is None else self.entries[at].about)

    def is_heading(self, index: int) -> bool:
        return not self.entries[index].name

    @property
    def height(self) -> int:
        """The number of lines of all entries, with blank lines between groups."""
        titles = sum(not each.name for each in self.entries)
        return max(len(self.entries) + max(titles - 1, 0), 1)

    def _lines(self, index: int, width: int) -> list[Text]:
        entry = self.entries[index]
        if not entry.name:
            title = fit(Text(f"  {entry.group}", self.ink("accent", bold=True)), width)
            return [Text(" "), title] if index else [title]
        name = Text(one_line(entry.name), self.ink("text"))
        for at in {at for word in self._query.split() for at in hits(entry.name, word)}:
            name.stylize(self.ink("accent", bold=True), at, at + 1)
        left = Text("  ").append_text(name)
        slash = f"/{entry.words[0]}" if entry.words else ""
        right = Text(f" {entry.keys:>{KEY_CELLS}} ", self.ink("text"))
        if width >= 60:
            right = Text(f"  {slash:<{SLASH_CELLS}}", self.ink("dim")).append_text(right)
        if width >= NARROW:
            left.append(" " * max(NAME_CELLS - name.cell_len, 2))
            left.append(line(entry.about), self.ink("dim"))
        return [spread(left, right, width)]


class PaletteScreen(ClosableModal[None]):
    """A screen that finds a command as the user types, and runs it."""

    CSS = """
    PaletteScreen { align: center top; background: $background 60%; }
    PaletteScreen:ansi { background: transparent; }
    #palette { margin-top: 2; width: 100%; max-width: 130; height: auto; background: $surface; }
    #palette-field { height: 2; padding: 1 1 0 1; }
    #palette-field > Static { width: 3; color: $accent; padding: 0 0 0 1; }
    #palette-field > Input { width: 1fr; border: none; height: 1; padding: 0; background: $surface; }
    #palette > KeyLine { padding: 0 2; }
    PaletteRows { margin-top: 1; }
    #palette-about { height: 3; padding: 1 2 0 2; color: $text-muted; display: none; }
    #palette-about:ansi { text-style: dim; }
    PaletteScreen.-narrow #palette-about { display: block; }
    PaletteScreen.-low #palette { margin-top: 0; }
    PaletteScreen.-low #palette-field { height: 1; padding: 0 1; }
    PaletteScreen.-low PaletteRows { margin-top: 0; }
    PaletteScreen.-low KeyLine, PaletteScreen.-low #palette-about { display: none; }
    """
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,ctrl+p", "rows('move', -1)", "Up", show=False),
        Binding("down,ctrl+n", "rows('move', 1)", "Down", show=False),
        Binding("pageup", "rows('page', -1)", "Page up", show=False),
        Binding("pagedown", "rows('page', 1)", "Page down", show=False),
        Binding("escape,ctrl+c", "dismiss", "Back", show=False),
    ]

    def __init__(self, entries: Sequence[PaletteEntry] = ()) -> None:
        super().__init__()
        self._about = Static(id="palette-about", markup=False)
        self._rows = PaletteRows(entries, lambda text: self._about.update(line(text)))

    def compose(self) -> ComposeResult:
        with Vertical(id="palette"):
            with Horizontal(id="palette-field"):
                yield Static("⌕", markup=False)
                yield Field(placeholder="Find a command", compact=True)
            yield self._rows
            yield self._about
            yield KeyLine(KEYS)

    def on_mount(self) -> None:
        self._rows.use(palette_of(self.app))
        self._fit()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < LOW, "-low")
        self.set_class(event.size.width < NARROW, "-narrow")
        self._fit()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._rows.find(event.value)
        self.query_one(KeyLine).say(KEYS if self._rows.count else BACK)
        self._fit()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._rows.action_open()

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        entry = self._rows.entries[event.index]
        if entry.name:
            self.dismiss(None)
            self.app.call_next(entry.run)

    def action_rows(self, act: str, amount: int) -> None:
        """Move the cursor of the list while the input field has the focus."""
        getattr(self._rows, f"action_{act}")(amount)

    def _fit(self) -> None:
        wide, high = self.app.size
        room = high - 2 if high < LOW else min(high * 7 // 10, high - (10 if wide < NARROW else 6))
        self._rows.styles.height = min(self._rows.height, max(room, 1))
