"""The list of skins, which previews the one under the cursor."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from agent.errors import HermesError
from app.tui.screens.closable import ClosableModal
from app.tui.screens.entry_page import EntryRows
from app.tui.screens.page import HELP, KeyLine, ScreenHeader, line
from app.tui.screens.skins.appearance import findings, problems_text
from app.tui.screens.skins.preview import SkinPreview
from themes.contrast import ContrastFinding
from themes.loader import ListedSkin, LoadedSkin, list_skins
from themes.states import DOUBT, IN_USE, glyph
from widgets.palette import Palette
from widgets.rows.row_list import RowList
from widgets.rows.row_text import one_line, spread

if TYPE_CHECKING:
    from app.tui.screens.skins.appearance import Appearance, AppearancePort


WIDTHS = [(0, "-narrow"), (82, "-wide")]
"""Classes of the screen by its number of columns; a narrow one shows only the list."""
PAUSE = 0.03
"""Seconds the cursor rests on a skin before it is applied, so that moving through the list stays quick."""


@dataclass(frozen=True, slots=True)
class SkinChoice:
    """The result of the list of skins."""

    name: str
    edit: bool = False
    """True to open the skin in the editor instead of saving the choice."""


async def choose(app: AppearancePort, name: str = "") -> None:
    """Apply and save the skin called `name`, or one that the person chooses. Raises `HermesError`."""
    before = app.appearance.skin
    if not name:
        choice = await app.push_screen_wait(SkinsScreen(app.appearance))
        if choice is None or choice.edit:
            app.appearance.show(before)
        if choice is None:
            return
        if choice.edit:
            from app.tui.screens.skins.skin_editor import edit

            await edit(app, choice.name)
            return
        name = choice.name
    await app.appearance.wear(name)
    await app.appearance.keep(name)


class SkinList(EntryRows[ListedSkin]):
    """The names of skins; the person's own ones are marked."""

    def __init__(self) -> None:
        super().__init__(key=lambda skin: skin.name, words=lambda skin: skin.name)
        self.background = "surface"
        self.worn = ""
        """The current skin when the list was opened."""

    @property
    def highlighted_name(self) -> str | None:
        """The name under the cursor."""
        return None if self.pointed is None else self.pointed.name

    def draw_entry(self, entry: ListedSkin, width: int) -> list[Text]:
        left = Text(" ").append(f"{IN_USE} " if entry.name == self.worn else "  ", self.ink("accent"))
        left.append(one_line(entry.name), self.ink("text"))
        return [spread(left, Text("yours " if entry.own else "", self.ink("dim")), width)]


class SkinsScreen(ClosableModal[SkinChoice | None]):
    """The list of skins, at the right edge. Its result is a skin to save or edit, or None to restore the old
    one.
    """

    CSS_PATH = "skins.tcss"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    AUTO_FOCUS = "SkinList"
    DIMS = False  # the conversation is seen in the skin
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back"),
        Binding("e", "edit", "edit"),
        HELP,
    ]

    def __init__(self, looks: Appearance) -> None:
        super().__init__()
        self._looks = looks
        self._on: str | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="skins"):
            yield ScreenHeader("Skins")
            with Horizontal(id="skins-sides"):
                yield SkinList()
                yield SkinPreview(self._looks.shown)
            yield Static(id="skins-about")
            yield KeyLine("↑↓ look · ⏎ keep · e edit · / filter · esc back")

    def use(self, palette: Palette) -> None:
        """Redraw with these styles."""
        self.query_one(SkinList).use(palette)
        self.query_one(SkinPreview).show(palette.skin)

    async def on_mount(self) -> None:
        self.query_one(SkinList).use(self._looks.palette)
        skins = await asyncio.to_thread(list_skins, self._looks.folder)
        listed = self.query_one(SkinList)
        listed.worn = self._looks.skin.name
        listed.show(skins, listed.worn)

    def on_pointed_rows_pointed(self) -> None:
        """Preview the skin that the cursor moved to."""
        name = self.query_one(SkinList).highlighted_name
        if name is not None and name != self._on:
            self._on = name
            self._try_on(name)

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        self.dismiss(SkinChoice(self.query_one(SkinList).entries[event.index].name))

    def action_edit(self) -> None:
        if name := self.query_one(SkinList).highlighted_name:
            self.dismiss(SkinChoice(name, edit=True))

    @work(exclusive=True, group="preview")
    async def _try_on(self, name: str) -> None:
        await asyncio.sleep(PAUSE)
        try:
            loaded = await self._looks.try_on(name)
        except HermesError as error:
            self._tell(Content.assemble((f"{glyph('failed')} ", "$error"), line(str(error))))
            return
        if loaded is not None:
            self._tell(about(loaded, await findings(loaded.skin)))

    def _tell(self, words: Content) -> None:
        self.query_one("#skins-about", Static).update(words)


def about(loaded: LoadedSkin, hard: list[ContrastFinding]) -> Content:
    """Return a skin's description, problems of its file, and contrast problems. Pure."""
    lines: list[Any] = [line(loaded.skin.description) or "No description."]
    if loaded.problems:
        lines += ["\n", (f"{glyph('failed')} ", "$error"), line(problems_text(loaded.problems))]
    if hard:
        more = f" And {len(hard) - 1} more." if len(hard) > 1 else ""
        lines += ["\n", (f"{DOUBT} ", "$warning"), f"{hard[0]}{more}"]
    return Content.assemble(*lines)
