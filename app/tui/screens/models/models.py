"""The model picker: available models, their prices, and reasons why some cannot be used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from agent.errors import HermesError
from agent.model.catalog import ModelInfo
from agent.model.key_check import KeyProvider
from agent.model.model_choices import ModelChoice, merge_choices
from agent.model.providers import NoModelError
from app.tui.screens.dialog import Choices, Dialog, Hints, ProblemLine, TextDialog
from app.tui.screens.entry_page import EntryPage, EntryRows, change, change_entry, load
from app.tui.screens.models.key_dialog import (
    KeyDialog,
    ProviderDialog,
    ServerDialog,
    fetch_model,
    obtain_model,
)
from app.tui.screens.models.model_menu import ModelMenu, Offers, Way, ways
from app.tui.screens.page import Page, line, words
from themes.states import IN_USE, NEEDS_YOU, STATES, glyph
from tools.text.words import plural
from widgets.panes.status import UNKNOWN, tokens
from widgets.rows.row_list import RowList
from widgets.rows.row_text import fit, one_line, spread

UNASKED = ("text-muted", "F5 asks it once, which costs nothing.")
NOWHERE = "Providers of models stand here. Press n to add one."


def is_usable(row: dict[str, Any]) -> bool:
    """Return whether a provider needs no key or has one. Pure."""
    return bool(row["key_set"] or not row["key_env"])


class ProvidersScreen(EntryPage[None, "dict[str, Any]"]):
    """The list of providers; the result of a check is shown in the details of the provider."""

    DEFAULT_CLASSES = "rows-first"
    heading = "Providers"
    keys = "F5 check · n new · e key · d delete · / filter · ? keys · esc back"
    ways_on = "n new"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "verify", "Ask the provider once, which costs nothing", id="providers.check"),
        Binding("n", "add", "Add a provider by its address", id="providers.add"),
        Binding("e", "new_key", "Enter its key", id="providers.key"),
        Binding("d,delete", "remove", "Delete the provider from your settings", id="providers.remove"),
        Binding("u", "undo", "Take back the last deletion", id="providers.undo"),
    ]

    def __init__(self, menu: ModelMenu, at: str = "") -> None:
        super().__init__(ProviderRows(), at)
        self._menu = menu
        self._answers: dict[str, tuple[str, str]] = {}
        """Colour role and result of the check, by provider."""

    def on_mount(self) -> None:
        self._begin()

    @load
    async def _begin(self) -> None:
        await self._load()

    async def _load(self, at: str = "") -> None:
        rows = sorted(await self._menu.provider_rows(), key=lambda row: not is_usable(row))
        usable = sum(map(is_usable, rows))
        self.list_entries(rows, f"{usable} can be used · {len(rows) - usable} need a key", at)

    def about(self, entry: dict[str, Any]) -> Content:
        origin = "built in" if entry["built_in"] else "from your settings or the environment"
        key = f"{entry['key_env']} is {'set' if entry['key_set'] else 'not set; e enters it'}"
        learned = f"{plural(entry['learned'], 'thing')} learned of its models" if entry["learned"] else ""
        role, answer = self._answers.get(entry["name"], UNASKED)
        facts = [f"Address: {entry['base_url']}", f"Format: {entry['format']}"]
        facts += [f"Key: {key}" if entry["key_env"] else "No key needed", learned]
        return Content.assemble(
            (one_line(entry["name"]), "bold"),
            (f"  {origin}\n\n", "$text-muted"),
            "\n".join(one_line(each) for each in facts if each),
            (f"\n\n{line(answer)}", f"${role}"),
        )

    def open_entry(self, entry: dict[str, Any]) -> None:
        self.action_verify() if is_usable(entry) else self.action_new_key()

    @change_entry
    async def action_verify(self, row: dict[str, Any]) -> None:
        name = row["name"]
        self._answers[name] = "text-muted", "asking it …"
        self.show_details()
        found = await self._menu.ask_provider(name)
        count = f"; it names {plural(len(found.models), 'model')}" if found.models else ""
        answer = f"{glyph('done')} It answers{found.key}{count}."
        self._answers[name] = (
            ("text-error", f"{glyph('failed')} {found.problem}") if found.problem else ("text", answer)
        )
        self.show_details()

    @change
    async def action_add(self) -> None:
        found = await self.app.push_screen_wait(ServerDialog(self._menu))
        if found is not None:
            await self._load(found.name)

    @change_entry
    async def action_new_key(self, row: dict[str, Any]) -> None:
        offers = await self._menu.offers()
        provider = next((each for each in offers.providers if each.name == row["name"]), None)
        if provider is None:
            self.show_problem("This provider takes no key that could be entered here.", "warning")
        elif await self.app.push_screen_wait(KeyDialog(provider, self._menu)) is not None:
            await self._load(row["name"])

    @change_entry
    async def action_remove(self, row: dict[str, Any]) -> None:
        back = await self._menu.remove_provider(row["name"])

        async def undo() -> None:
            await back()
            await self._load(row["name"])

        self.undo.append(undo)
        await self._load()
        self.notify("Deleted; u takes it back.", markup=False)


class ProviderRows(EntryRows["dict[str, Any]"]):
    """One row per provider: whether it can be used, its name and address, its key."""

    def __init__(self) -> None:
        super().__init__(
            key=lambda row: row["name"], words=lambda row: f"{row['name']} {row['base_url']}", empty=NOWHERE
        )

    def draw_entry(self, entry: dict[str, Any], width: int) -> list[Text]:
        state = STATES["done" if entry["key_set"] else "pending" if is_usable(entry) else "skipped"]
        left = Text(" ").append(f"{state.glyph} ", self.ink(state.role))
        left.append(f"{one_line(entry['name']):<14} ", self.ink("text" if is_usable(entry) else "dim"))
        left.append(one_line(entry["base_url"]), self.ink("dim"))
        need = "" if is_usable(entry) else "needs a key"
        return [spread(left, Text(f" {need} ", self.ink("dim")), width)]


WINDOW_CELLS = 8
PRICE_CELLS = 16
NOTE_CELLS = 24
"""The width in cells of the last column, which only wide screens have."""
WIDE = 100
ANY = "Any model can be named: provider/model, local:/path/to/file.gguf, or demo."
BUSY = "A turn is running; stop it (esc) before another model continues."


class ModelsScreen(Page[str | None]):
    """The model picker. Its result is the name of a model, or None. Models from slow sources appear later."""

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
        """`current` is the label of the model in use; `setup` provides what a model lacks.

        `only` limits the list to a provider: to its models of the given names, or without names to the known
        ones.
        """
        self._list = ModelRows(current)
        super().__init__(self._list)
        self._menu = menu
        self._sources = (
            [partial(menu.of_provider, *only)] if only else [menu.list_choices, menu.detect_choices]
        )
        self._busy = busy
        self._problem = ""
        """The reason why no models are listed; empty if there is none."""
        self._setup = setup

    def below(self) -> list[Widget]:
        return [Static(id="page-about")]

    def on_mount(self) -> None:
        self._fill()

    @work(exclusive=True, group="list")
    async def _fill(self) -> None:
        """List the known models first, then add models of servers on this machine when they answer."""
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
            self._show_details(None)
            self.state("")
            return False
        return True

    def on_model_rows_pointed(self, event: ModelRows.Pointed) -> None:
        self._show_details(event.choice)

    def _show_details(self, choice: ModelChoice | None) -> None:
        """Show the details of a model; without one, show the problem or how to name another model."""
        about_it = Content(line(ANY if choice is None else about(choice)))
        if choice is None and self._problem:
            about_it = Content.assemble((f"{glyph('failed')} {self._problem}", "$text-error"))
        self.query_one("#page-about", Static).update(about_it)

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        if self._list.unfold_at_cursor():
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
        """Set up what a model lacks, a key or its weights, and use the model."""
        assert self._setup is not None
        name = await obtain_model(self.app, choice, await self._menu.offers(), self._setup)
        if name:
            self.dismiss(name)
        elif name is None:
            self.notify(line(choice.problem), severity="warning", markup=False)

    @work(exclusive=True, group="get")
    async def action_add(self) -> None:
        """Add a server as a provider, and list its models."""
        found = await self.app.push_screen_wait(ServerDialog(self._menu))
        if found is not None:
            await self._add(partial(self._menu.of_provider, found.name, found.models))
            self._list.point_at(f"{found.name}/")
            self.notify(line(f"{found.name} is kept; {plural(len(found.models), 'model')}."), markup=False)

    @work(exclusive=True, group="get")
    async def action_providers(self) -> None:
        await self.app.push_screen_wait(ProvidersScreen(self._menu))
        self._fill()

    @work(exclusive=True, group="get")
    async def action_new_key(self) -> None:
        """Enter a new key for the provider of the model under the cursor, and use the model if possible."""
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
        """Return the name under the cursor or the typed one; "" with a notice if it cannot be used."""
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
        """Sent when the cursor moves to another model; `choice` is None on the row for a typed name."""

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
        """The number of unusable models at the end that are folded into one line."""
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

    def unfold_at_cursor(self) -> bool:
        """Unfold the unusable models if the cursor is on their line; return whether it was."""
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
        """Add models, usable ones first; the cursor stays on its model, and starts on the current one."""
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
        """Show another model as the default."""
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
    """Return the state of a model in a few words. Pure."""
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
    """Return prices per million input and output tokens, such as `$3 / $15`; `–` if unknown. Pure."""
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
    """Return the problem of a model, or everything known about it, in a line or two. Pure."""
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


NONE_YET = "No model is chosen yet."
WORDS = "What you type meanwhile is kept, and sent when a model is there."


class OnboardingScreen(Dialog[str | None]):
    """Offers ways to get a model. Its result is a model's name, or None. Typed text stays in the prompt."""

    leaves = "quit"
    weighs_digits = True

    def __init__(
        self,
        problem: NoModelError,
        paste_into_draft: Callable[[str], None] = lambda _text: None,
        *,
        offers: Offers = Offers(),  # noqa: B008 - frozen
        setup: ModelMenu | None = None,
        hold: Callable[[str], None] = lambda _text: None,
        draft: Callable[[], str] = str,
        failed: str = "",
    ) -> None:
        """`hold` takes a message typed for the model during a download; `draft` returns the unsent text.

        `failed` says why the model chosen before could not be used.
        """
        super().__init__(paste_into_draft)
        self._draft = draft
        self._failed = failed
        self._problems = problem.problems
        self._chose = False
        self._offers = offers
        self._setup = setup
        self._hold = hold
        self._ways = ways(problem, offers)

    @property
    def writes(self) -> bool:
        """True if digits belong to the draft: it has text, and no arrow key has returned to the choices."""
        return (self._to_prompt or not self._chose) and bool(self._draft())

    def back_to_choices(self) -> None:
        super().back_to_choices()
        self._chose = True

    def body(self) -> ComposeResult:
        yield Static(Content(f"{NEEDS_YOU} Choose a model"), classes="who")
        yield words(WORDS if self._failed else f"{NONE_YET} {WORDS}", "text")
        yield ProblemLine()
        default = next((at for at, way in enumerate(self._ways) if way.is_default), len(self._ways) - 1)
        yield Choices([way.title for way in self._ways], chosen=default)
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        self._go(self._ways[event.option_index])

    @work(exclusive=True, group="way")
    async def _go(self, way: Way) -> None:
        model = way.model
        kept = False
        match way.act:
            case "name":
                dialog = TextDialog("Model, as provider/name", check=self._problem_of)
                model = (await self.app.push_screen_wait(dialog) or "").strip()
                kept = True
            case "server" if self._setup is not None:
                found = await self.app.push_screen_wait(ServerDialog(self._setup))
                model = await self._choose(found.name, found.models) if found is not None else ""
                kept = True
            case "fetch" if way.weights is not None and self._setup is not None:
                model = await fetch_model(self.app, way.weights, self._offers, self._setup, self._hold)
                kept = True
            case "key":
                provider = await self.app.push_screen_wait(ProviderDialog(self._offers.providers))
                model, kept = await self._with_key(provider) if provider is not None else "", True
            case "models" if way.provider is not None:
                model, kept = await self._choose(way.provider.name, ()), True
            case _:
                kept = model != "demo"
        if not model:
            return
        if kept:
            await self._keep(model)
        self.dismiss(model)

    async def _with_key(self, provider: KeyProvider) -> str:
        """Ask for a provider's key and then for one of its models; return its name, "" if cancelled."""
        if self._setup is None:
            return ""
        check = await self.app.push_screen_wait(KeyDialog(provider, self._setup))
        return "" if check is None else await self._choose(provider.name, check.models)

    async def _problem_of(self, model: str) -> str:
        return (
            await self._setup.problem_of(model.strip()) if self._setup is not None and model.strip() else ""
        )

    async def _choose(self, provider: str, names: tuple[str, ...]) -> str:
        if len(names) == 1:
            return f"{provider}/{names[0]}"
        if self._setup is None:
            return ""
        screen = ModelsScreen("", self._setup, only=(provider, names))
        return await self.app.push_screen_wait(screen) or ""

    async def _keep(self, model: str) -> None:
        """Make the model the default of later sessions."""
        if self._setup is None:
            return
        try:
            await self._setup.keep(model)
        except HermesError as error:
            self.notify(line(str(error)), severity="warning", markup=False)

    def on_mount(self) -> None:
        self.query_one(ProblemLine).say(self._failed or " ".join(self._problems))

    def decline(self) -> None:
        self.dismiss(None)
