"""The screen of providers: those that can be used first; add, check and delete them, and enter keys."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.content import Content

from app.tui.screens.entry_page import EntryPage, EntryRows, change, change_entry, load
from app.tui.screens.models.key_dialog import KeyDialog, ServerDialog
from app.tui.screens.models.model_menu import ModelMenu
from app.tui.screens.page import line
from themes.states import STATES, glyph
from tools.text.words import plural
from widgets.rows.row_text import one_line, spread

UNASKED = ("text-muted", "F5 asks it once, which costs nothing.")
NOWHERE = "Providers of models stand here. Press n to add one."


def is_usable(row: dict[str, Any]) -> bool:
    """Return whether nothing is known to be missing. Pure."""
    return bool(row["key_set"] or not row["key_env"])


class ProvidersScreen(EntryPage[None, "dict[str, Any]"]):
    """The list of providers; what a check gave stands beside the one it asked."""

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
        """A role and a sentence by provider, of those that were asked."""

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
        self.tell()
        found = await self._menu.ask_provider(name)
        count = f"; it names {plural(len(found.models), 'model')}" if found.models else ""
        answer = f"{glyph('done')} It answers{found.key}{count}."
        self._answers[name] = (
            ("text-error", f"{glyph('failed')} {found.problem}") if found.problem else ("text", answer)
        )
        self.tell()

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
            self.complain("This provider takes no key that could be entered here.", "warning")
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
