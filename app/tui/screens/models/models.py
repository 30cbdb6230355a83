"""The model picker: available models, their prices, and reasons why some cannot be used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from agent.errors import HermesError
from agent.model.catalog import ModelInfo
from agent.model.model_choices import ModelChoice, merge_choices
from app.tui.screens.models.key_dialog import KeyDialog, ServerDialog, obtain_model
from app.tui.screens.models.model_menu import ModelMenu
from app.tui.screens.page import Page, line
from themes.states import IN_USE, STATES, glyph
from widgets.panes.status import UNKNOWN, tokens
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit, spread

WINDOW_CELLS = 8
PRICE_CELLS = 16
NOTE_CELLS = 24
"""Cells of the last column, on wide screens only."""
WIDE = 100
ANY = "Any model can be named: provider/model, local:/path/to/file.gguf, or demo."
BUSY = "A turn is running; stop it (esc) before another model continues."


class ModelsScreen(Page[str | None]):
    """The model picker. Its result is the name of a model, or None. Slow sources are added later."""

    heading = "Models"
    keys = "⏎ use · space default · e key · n new provider · / find or name one · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "keep", "Use by default in new sessions", id="models.keep"),
        Binding("n", "add", "Add a provider by its address", id="models.add"),
        Binding("i", "providers", "All providers: check, delete", id="models.providers"),
        Binding("e", "new_key", "Enter another key of its provider", id="models.new_key"),
    ]

    def __init__(
        self,
        current: str,
        menu: ModelMenu,
        busy: Callable[[], bool] = lambda: False,
        *,
        setup: ModelMenu | None = None,
        only: tuple[str, Sequence[str]] | None = None,
    ) -> None:
        """`current` is the label of the model in use; `setup` gets what a model lacks.

        `only` limits the list to a provider: to its models of the given names, or if there are none, to the
        known ones.
        """
        self._list = ModelRows(current)
        super().__init__(self._list)
        self._menu = menu
        self._sources = (
            [partial(menu.of_provider, *only)] if only else [menu.list_choices, menu.detect_choices]
        )
        self._busy = busy
        self._problem = ""
        """Why there is nothing to list."""
        self._setup = setup

    def below(self) -> list[Widget]:
        return [Static(id="page-about")]

    def on_mount(self) -> None:
        self._fill()

    @work(exclusive=True, group="list")
    async def _fill(self) -> None:
        """Show the list first, then add models of servers on this machine when they answer."""
        self.state("looking for servers on this machine …")
        for source in self._sources:
            if not await self._add(source):
                return
        self.state(BUSY if self._busy() else "")

    async def _add(self, source: Callable[[], Awaitable[list[ModelChoice]]]) -> bool:
        try:
            self._list.add(await source())
        except HermesError as error:
            self._problem = line(str(error))
            self._tell(None)
            self.state("")
            return False
        return True

    def on_model_rows_pointed(self, event: ModelRows.Pointed) -> None:
        self._tell(event.choice)

    def _tell(self, choice: ModelChoice | None) -> None:
        """Describe a model; without one, say what prevents the list, or what can be named."""
        about_it = Content(line(ANY if choice is None else about(choice)))
        if choice is None and self._problem:
            about_it = Content.assemble((f"{glyph('failed')} {self._problem}", "$text-error"))
        self.query_one("#page-about", Static).update(about_it)

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        if self._list.opens_folded():
            return
        choice = self._list.pointed
        if choice is not None and choice.problem and self._setup is not None:
            self._get(choice)
            return
        name = self._usable_name()
        if name and self._busy():
            self.notify(BUSY, severity="warning", markup=False)
        elif name:
            self.dismiss(name)

    @work(exclusive=True, group="get")
    async def _get(self, choice: ModelChoice) -> None:
        """Get what a model lacks: a key, or its weights."""
        assert self._setup is not None
        name = await obtain_model(self.app, choice, await self._menu.offers(), self._setup)
        if name:
            self.dismiss(name)
        elif name is None:
            self.notify(line(choice.problem), severity="warning", markup=False)

    @work(exclusive=True, group="get")
    async def action_add(self) -> None:
        """Add a provider; its models stand in the list then."""
        found = await self.app.push_screen_wait(ServerDialog(self._menu))
        if found is not None:
            await self._add(partial(self._menu.of_provider, found.name, found.models))
            self._list.point_at(f"{found.name}/")
            self.notify(line(f"{found.name} is kept; {len(found.models)} models."), markup=False)

    @work(exclusive=True, group="get")
    async def action_providers(self) -> None:
        from app.tui.screens.models.providers import ProvidersScreen

        await self.app.push_screen_wait(ProvidersScreen(self._menu))
        self._fill()

    @work(exclusive=True, group="get")
    async def action_new_key(self) -> None:
        """Replace the key of a provider, for example after it was refused, and use the model."""
        name = choice.name if (choice := self._list.pointed) is not None else ""
        found = [each for each in (await self._menu.offers()).providers if name.startswith(f"{each.name}/")]
        if not found or self._setup is None:
            self.notify("This model takes no key that could be entered here.", markup=False)
        elif await self.app.push_screen_wait(KeyDialog(found[0], self._setup)) is not None:
            if choice is not None and not choice.problem and not self._busy():
                self.dismiss(name)
            else:
                self.notify("The key is kept; choose the model to continue with it.", markup=False)

    @work(exclusive=True, group="keep")
    async def action_keep(self) -> None:
        name = self._usable_name()
        if not name:
            return
        try:
            said = await self._menu.keep(name)
        except HermesError as error:
            self.notify(line(str(error)), severity="error", markup=False)
            return
        self.notify(line(said), markup=False)
        self._list.make_default(name)

    def _usable_name(self) -> str:
        """Return the name under the cursor; if it cannot be used, show why and return empty."""
        choice = self._list.pointed
        if choice is None:
            name = self._list.needle.strip()
            if not name:
                self.notify("Press / and type provider/model first.", markup=False)
            return name
        if choice.problem:
            self.notify(line(choice.problem), severity="warning", markup=False)
            return ""
        return choice.name


class ModelRows(RowList):
    """One row per model, and a last one for a name that is not listed."""

    class Pointed(Message):
        """Sent when the cursor moves to another model; None for the row of a typed name."""

        def __init__(self, choice: ModelChoice | None) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, current: str) -> None:
        super().__init__(self._lines, search_text=self._text)
        self._current = current
        self._choices: list[ModelChoice] = []
        self._told: object = self
        self._is_open = False
        self._folded = 0
        """Models at the end that one line stands for."""
        self.reset(1)

    @property
    def pointed(self) -> ModelChoice | None:
        """The model under the cursor."""
        row = self.cursor
        return self._choices[row] if row is not None and row < self._listed_count else None

    @property
    def _listed_count(self) -> int:
        return len(self._choices) - self._folded

    def _is_usable(self, choice: ModelChoice) -> bool:
        return not choice.problem or choice.default or choice.label == self._current or choice.name == "local"

    def opens_folded(self) -> bool:
        """Show the models that one line stands for if the cursor is on it; return whether it was."""
        if not self._folded or self.cursor != self._listed_count:
            return False
        row = self._listed_count
        self._open()
        self.move_to(row)
        return True

    def point_at(self, start: str) -> None:
        """Move to the first model whose name begins with `start`."""
        found = (
            at for at, each in enumerate(self._choices[: self._listed_count]) if each.name.startswith(start)
        )
        self.move_to(next(found, self.cursor or 0))

    def action_filter(self) -> None:
        self._open()
        super().action_filter()

    def _open(self) -> None:
        self._is_open = True
        self.add([])

    def add(self, more: list[ModelChoice]) -> None:
        """Add models; the cursor stays on its model, which is at first the current one."""
        before, first = self.pointed, not self._choices
        merged = merge_choices([*self._choices, *more])
        usable = [each for each in merged if self._is_usable(each)]
        self._choices = [*usable, *(each for each in merged if not self._is_usable(each))]
        # One line is no shorter than one model, and a list without usable ones needs the others.
        folds = usable and len(merged) - len(usable) > 1 and not self._is_open
        self._folded = len(merged) - len(usable) if folds else 0
        self.reset(len(self._choices) - self._folded + bool(self._folded) + 1)
        wanted = self._current if first or before is None else before.label
        labels = [choice.label for choice in self._choices]
        if wanted in labels:
            self.move_to(labels.index(wanted))
        self.cursor_moved()

    def make_default(self, name: str) -> None:
        """Mark another model as the default."""
        self._choices = [replace(each, default=each.name == name) for each in self._choices]
        self.repaint()

    def cursor_moved(self) -> None:
        super().cursor_moved()
        pointed = self.pointed
        if self._told is not pointed:
            self._told = pointed
            self.post_message(self.Pointed(pointed))

    def repaint(self) -> None:
        super().repaint()
        if self.is_running:
            self.cursor_moved()

    def heading(self, width: int) -> Text:
        ends = f"{'window':>{WINDOW_CELLS}}{'in / out per M':>{PRICE_CELLS}}"
        return spread(
            Text("   model", self.ink("dim")), Text(f"{ends}{self._pad('', width)} ", self.ink("dim")), width
        )

    def _pad(self, note: str, width: int) -> str:
        return f"  {note:<{NOTE_CELLS}}" if width >= WIDE else ""

    def _text(self, index: int) -> str:
        if index >= self._listed_count:
            return self.needle
        choice = self._choices[index]
        return choice.name if not choice.missing_key else f"{choice.name}  {choice.missing_key}"

    def _lines(self, index: int, width: int) -> list[Text]:
        if self._folded and index == self._listed_count:
            folded = self._choices[self._listed_count :]
            lack = "need a key" if all(each.missing_key for each in folded) else "cannot be used yet"
            return [fit(Text(f"   {self._folded} more {lack} ⏎", self.ink("dim")), width)]
        if index >= self._listed_count:
            return [self._another(width)]
        choice = self._choices[index]
        current = choice.label == self._current
        mark = IN_USE if current else STATES["skipped"].glyph if choice.problem else " "
        role = "accent" if current else "dim" if choice.problem else "text"
        left = Text(f" {mark} {line(choice.name)}", self.ink(role))
        note = fit(Text(note_of(choice, current)), NOTE_CELLS).plain
        info = choice.info
        figures = f"{tokens(info.context_window):>{WINDOW_CELLS}}{price(info):>{PRICE_CELLS}}"
        right = Text(f" {figures}{self._pad(note, width)} ", self.ink("dim" if choice.problem else "text"))
        if width < WIDE and note and not current:
            left.append(f"  {note}", self.ink("dim"))
        return [spread(left, right, width)]

    def _another(self, width: int) -> Text:
        needle = self.needle.strip()
        words = (
            f"   continue with “{line(needle)}”" if needle else "   another: / and its name, provider/model"
        )
        return fit(Text(words, self.ink("text" if needle else "dim")), width)


def note_of(choice: ModelChoice, current: bool) -> str:
    """Return the state of a model in a word or two. Pure."""
    words = []
    if current:
        words.append("current")
    if choice.default:
        words.append("default")
    if choice.missing_key:
        words.append(f"no {choice.missing_key}")
    elif choice.problem:
        words.append("not fetched yet" if choice.name == "local" else "not usable")
    elif choice.origin == "server":
        words.append("on this machine")
    return " · ".join(words)


def price(info: ModelInfo) -> str:
    """Return dollars per million tokens, in and out: `$3 / $15`; `–` if unknown. Pure."""
    if info.input_price is None and info.output_price is None:
        return UNKNOWN
    if not info.input_price and not info.output_price:
        return "free"
    return f"{dollars(info.input_price)} / {dollars(info.output_price)}"


def dollars(amount: float | None) -> str:
    """Return an amount as `$3`, `$0.25` or `$0.0028`; `–` if unknown. Pure."""
    if amount is None:
        return UNKNOWN
    shown = f"{amount:.4f}".rstrip("0").rstrip(".")
    whole, _, part = shown.partition(".")
    return f"${whole}.{part:0<2}" if part else f"${whole}"


def about(choice: ModelChoice) -> str:
    """Return everything known about a model, in a line or two. Pure."""
    if choice.problem:
        return choice.problem
    info = choice.info
    parts = [
        choice.name,
        f"window {tokens(info.context_window)} tokens" if info.context_window else "window unknown",
        "told by the server" if "context_window" in info.told else "",
        f"longest reply {tokens(info.max_output)}" if info.max_output else "",
    ]
    prices = (info.input_price, info.output_price, info.cached_price)
    if prices.count(None) == len(prices):
        parts.append("price unknown")
    elif not any(prices):
        parts.append("free")
    else:
        each = zip(("in", "out", "from the cache"), map(dollars, prices), strict=True)
        parts.append("per million tokens: " + ", ".join(f"{what} {price}" for what, price in each))
    return " · ".join(filter(None, parts))
