"""The base classes of screens that list entries and show the details of the one under the cursor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.notifications import SeverityLevel
from textual.widget import Widget
from textual.widgets import Input, Static
from textual.worker import Worker

from agent.errors import HermesError
from app.tui.screens.dialog import Dialog, Hints, ProblemLine, TextDialog
from app.tui.screens.page import WAYS_OUT, Field, Page, PointedRows, SplitPage, line, words
from themes.states import NEEDS_YOU
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit

Result = TypeVar("Result")


class FormLine(NamedTuple):
    """One input line of a form."""

    name: str
    hint: str
    """The placeholder shown while the line is empty."""
    is_secret: bool = False
    is_needed: bool = True


class WrongLineError(HermesError):
    """Raised if the text typed into one line cannot be used."""

    def __init__(self, sentence: str, name: str) -> None:
        super().__init__(sentence)
        self.name = name


class EntryForm(Dialog[Result | None]):
    """A dialog that asks for lines until `act` accepts them; its outcome is the result of `act`, or None."""

    at_once = True

    def __init__(
        self,
        title: str,
        about: str,
        lines: Sequence[FormLine],
        act: Callable[[Mapping[str, str]], Awaitable[Result]],
        *,
        enters: str = "add it",
        waiting: str = "",
    ) -> None:
        """`act` gets the typed lines by name; the text of its `HermesError` is shown. `waiting` is shown
        while it runs.
        """
        super().__init__(self._type)
        self.enters = enters
        self._title, self._about, self._lines = title, about, lines
        self._act, self._waiting = act, waiting

    def body(self) -> ComposeResult:
        yield Static(Content(line(f"{NEEDS_YOU} {self._title}")), classes="who")
        yield words(self._about, "text")
        for each in self._lines:
            yield Field(placeholder=each.hint, password=each.is_secret, compact=True, id=each.name)
        yield Static(id="said", classes="note")
        yield ProblemLine()
        yield Hints()

    def entry(self) -> Widget:
        return self.query_one(f"#{self._lines[0].name}")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        typed = {each.name: self.query_one(f"#{each.name}", Input).value.strip() for each in self._lines}
        missing = next((each.name for each in self._lines if each.is_needed and not typed[each.name]), "")
        if not missing:
            self._submit(typed)
        elif missing == event.input.id:
            self._refuse("Write something here first.", missing)
        else:
            self.query_one(f"#{missing}").focus()

    @work(exclusive=True, group="act")
    async def _submit(self, typed: Mapping[str, str]) -> None:
        self.query_one(ProblemLine).say("")
        self.query_one("#said", Static).update(Content(self._waiting))
        try:
            result = await self._act(typed)
        except (HermesError, OSError) as error:
            self._refuse(str(error), getattr(error, "name", ""))
        else:
            self.dismiss(result)

    def _refuse(self, sentence: str, name: str = "") -> None:
        self.query_one("#said", Static).update("")
        self.query_one(ProblemLine).say(sentence)
        if name:
            self.query_one(f"#{name}").focus()
        self._fit()

    def decline(self) -> None:
        self.dismiss(None)

    def _type(self, text: str) -> None:
        self.query(Input).first(Input).insert_text_at_cursor(text)


Entry = TypeVar("Entry")
Outcome = TypeVar("Outcome")


class EntryRows(PointedRows, Generic[Entry]):
    """One row for each entry of a list that can be loaded again."""

    def __init__(
        self, *, key: Callable[[Entry], object], words: Callable[[Entry], str], empty: str = ""
    ) -> None:
        """`key` identifies an entry, `words` is its text for the filter."""
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


Parameters = ParamSpec("Parameters")
ListedPage = TypeVar("ListedPage", bound=Page[Any])
ListScreen = TypeVar("ListScreen", bound="ListPage[Any, Any]")


def change(act: Callable[[ListScreen], Coroutine[Any, Any, None]]) -> Callable[[ListScreen], Worker[None]]:
    """Turn a method that changes something into a worker that shows a `HermesError` as a notice."""

    async def guarded(self: ListScreen) -> None:
        try:
            await act(self)
        except HermesError as error:
            self.show_problem(error)

    return work(exclusive=True, group="change")(guarded)


def load(
    act: Callable[Concatenate[ListedPage, Parameters], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[ListedPage, Parameters], Worker[None]]:
    """Turn a method that loads a list into a worker that shows a `HermesError` instead of the list."""

    async def guarded(self: ListedPage, *args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            await act(self, *args, **kwargs)
        except HermesError as error:
            self.fail(error)

    return work(exclusive=True, group="list")(guarded)


def change_entry(
    act: Callable[[ListScreen, Any], Coroutine[Any, Any, None]],
) -> Callable[[ListScreen], Worker[None]]:
    """Turn a method that changes the entry under the cursor into a worker; it is skipped without an entry."""

    async def on_entry(self: ListScreen) -> None:
        if (entry := self.pointed) is not None:
            await act(self, entry)

    return change(on_entry)


class ListPage(Page[Outcome], Generic[Outcome, Entry]):
    """A screen with a list of entries, and actions on the one under the cursor."""

    ways_on: str = ""
    """The keys that work without an entry, such as `n new`."""
    severity: ClassVar[SeverityLevel] = "error"
    """The severity of the notice that a failed action shows."""
    details: ClassVar[str] = "#page-about"
    """The selector of the widgets that show the details of the entry under the cursor."""

    def __init__(self, entries: EntryRows[Entry], at: str = "") -> None:
        """`at` is the key of the entry under the cursor at first, or `add` to begin with a new entry."""
        super().__init__(entries)
        self.listed = entries
        self._begins_at = at
        self.loaded = False
        """True once the entries were read."""
        self.undo: list[Callable[[], Awaitable[object]]] = []
        """Functions that undo the changes made here, that of the last change last."""

    @property
    def pointed(self) -> Entry | None:
        """The entry under the cursor."""
        return self.listed.pointed

    def about(self, entry: Entry) -> Content:
        """Return the details of an entry."""
        raise NotImplementedError

    def list_entries(self, entries: Sequence[Entry], state: str, at: object = None) -> None:
        """Show the entries, with the cursor on the one with the key `at`, and `state` next to the title."""
        self.listed.problem = ""
        self.listed.show(entries, at or self._begins_at)
        adds, self._begins_at = self._begins_at == "add", ""
        self.state(state)
        self.set_class(not entries, "bare")
        self.foot.say(self.keys if entries else " · ".join(filter(None, (self.ways_on, WAYS_OUT))))
        self.show_details()
        self.loaded = True
        if adds:
            self.call_later(self.run_action, "add")

    def on_pointed_rows_pointed(self, event: PointedRows.Pointed) -> None:
        event.stop()
        self.show_details()

    def show_details(self) -> object:
        """Update the details of the entry under the cursor."""
        entry = self.pointed
        for place in self.query(self.details).results(Static):
            place.update(Content("") if entry is None else self.about(entry))

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        if (entry := self.pointed) is not None:
            self.open_entry(entry)

    def open_entry(self, entry: Entry) -> object:
        """Handle enter on an entry."""

    def show_problem(self, error: HermesError | str, severity: SeverityLevel | None = None) -> None:
        """Show why an action failed."""
        self.notify(line(str(error)), severity=severity or self.severity, markup=False)

    async def ask(self, question: str, text: str = "") -> str:
        """Ask for a line, prefilled with `text`; return "" if the user cancels."""
        return (await self.app.push_screen_wait(TextDialog(question, text)) or "").strip()

    @change
    async def action_undo(self) -> None:
        """Take back the last change made here."""
        if self.undo:
            await self.undo.pop()()
        else:
            self.notify("Nothing was changed here yet.", markup=False)


class EntryPage(SplitPage[Outcome], ListPage[Outcome, Entry], Generic[Outcome, Entry]):
    """A list of entries, with the details (`about`) of the one under the cursor beside it."""

    details = "#entry-text"

    def beside(self) -> Iterable[Widget]:
        yield VerticalScroll(Static(id="entry-text"), id="entry", can_focus=False)


Counted = TypeVar("Counted")


class CountedRows(EntryRows[Entry]):
    """Rows with a `text` that are shown once they are counted; the cursor keeps its position."""

    def __init__(self) -> None:
        super().__init__(key=lambda _row: 0, words=attrgetter("text"), empty="Counting …")

    def show(self, entries: Sequence[Entry], at: object = None) -> None:
        """Replace the rows, unless `entries` equals the rows shown now; `at` is ignored."""
        if entries != self.entries:
            super().show(entries)


class CountedPage(ListPage[None, Entry], Generic[Counted, Entry]):
    """A table that is computed when it opens, and again on request."""

    keys = "F5 count again · / filter · y copy · ? keys · esc back"

    def __init__(self, count: Callable[[], Awaitable[Counted]], table: CountedRows[Entry]) -> None:
        """`count` computes the table; it may take a while and raise `HermesError`."""
        super().__init__(table)
        self._count = count

    @abstractmethod
    def rows_and_title(self, found: Counted) -> tuple[Sequence[Entry], str]:
        """Return the rows, and a short text for the title."""

    def on_mount(self) -> None:
        self.action_count()

    @load
    async def action_count(self, quiet: bool = False) -> None:
        """Compute the table again and show it; with `quiet` without a sign of the computation."""
        if not quiet:
            self.state("counting …")
        self.list_entries(*self.rows_and_title(await self._count()))


class FollowedRows(RowList, Generic[Entry]):
    """One row for each accepted entry of a source that grows, such as a log, with the newest in view."""

    kept: ClassVar[int] = 5_000
    """The number of entries that are kept for scrolling back."""

    def __init__(self, *, words: Callable[[Entry], str], empty: str) -> None:
        super().__init__(
            lambda index, width: [fit(self.draw_entry(self.entries[index]), width - 1)],
            search_text=lambda index: words(self.entries[index]),
            empty=empty,
            follow=True,
        )
        self._all: list[Entry] = []
        self.entries: list[Entry] = []
        """The entries that are listed."""

    @abstractmethod
    def accepts(self, entry: Entry) -> bool:
        """Return whether the entry is listed."""

    @abstractmethod
    def draw_entry(self, entry: Entry) -> Text:
        """Return the line of a row; it is cut at the edge."""

    @abstractmethod
    def hint(self, some: bool) -> str:
        """Return the hint in an empty list; `some` is true if there are entries that are not accepted."""

    def take(self, entries: Sequence[Entry], *, replace: bool = False) -> None:
        """Add entries; with `replace` they replace all earlier ones."""
        self.problem = ""
        if replace:
            self._all, self.entries = [], []
        self._all = [*self._all, *entries][-self.kept :] if entries else self._all
        shown = [each for each in entries if self.accepts(each)]
        over = max(len(self.entries) + len(shown) - self.kept, 0)
        if (hint := self.hint(bool(self._all))) != self.empty:
            self.empty = hint
            self.repaint()
        if replace:
            self.entries = shown[-self.kept :]
            self.reset(len(self.entries))
        elif shown:
            self.entries += shown
            self.add_rows(len(shown))
            if over:
                del self.entries[:over]
                self.drop_rows(over)

    def accept_again(self) -> None:
        """Filter all entries again after the condition changed, and scroll to the newest."""
        self.entries = [each for each in self._all if self.accepts(each)]
        self.empty = self.hint(bool(self._all))
        self.reset(len(self.entries))
        if self.entries:
            self.move_to(len(self.entries) - 1)

    def explain(self, sentence: str) -> None:
        """Show an error sentence instead of the entries."""
        self._all, self.entries = [], []
        self.problem = line(sentence)
        self.reset(0)
