"""The list of skins with a preview of the one under the cursor, and the skin editor."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from rich.style import Style
from rich.text import Text
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from agent.core.home import Home, from_home
from agent.errors import ConfigError, HermesError
from app.tui.screens.closable import ClosableModal, ClosableScreen
from app.tui.screens.dialog import ConfirmDialog, TextDialog
from app.tui.screens.entry_page import EntryRows
from app.tui.screens.page import HELP, Field, KeyLine, ScreenHeader, line
from app.tui.screens.skins import skin_files
from app.tui.screens.skins.appearance import findings, problems_text
from app.tui.screens.skins.skin_files import sample
from themes.colors import DEFAULT, RGB, TERMINAL_COLORS, adapt_skin, normalize_color
from themes.contrast import ContrastFinding, check, is_dark, tightest
from themes.loader import ListedSkin, LoadedSkin, list_skins
from themes.skin import ROLES, Skin, nearest, short_line
from themes.states import DOUBT, IN_USE, glyph
from tools.text.words import plural
from widgets.palette import Palette
from widgets.palette import color_of as rich_color
from widgets.rows.row_list import RowList
from widgets.rows.row_text import one_line, spread, to_strip

if TYPE_CHECKING:
    from app.tui.screens.skins.appearance import Appearance, AppearancePort


class SkinPreview(Widget):
    """A widget that shows a sample of a skin, independent of the application's skin."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "SkinPreview { width: 1fr; height: 1fr; }"

    def __init__(self, skin: Skin, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._skin = skin
        self._strips: list[Strip] = []
        self._width = 0

    def show(self, skin: Skin) -> None:
        """Show a sample of this skin, which is already reduced to the terminal's colours."""
        self._skin = skin
        self._strips = []
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = Palette(self._skin).style("text")
        if not self._strips or self._width != width:
            self._width = width
            console = self.app.console
            lines = sample(self._skin, width, banner=False)
            self._strips = [to_strip(line, width, base, console) for line in lines]
        return self._strips[y] if y < len(self._strips) else Strip.blank(width, base)


@dataclass(frozen=True, slots=True)
class SkinDraft:
    """A skin being edited, with some colours changed."""

    base: Skin
    """The skin at the start of editing, or as it was last saved."""
    changes: Mapping[str, str]
    """New colours by role; never one that equals the base's."""

    @classmethod
    def of(cls, skin: Skin) -> SkinDraft:
        """Return a draft without changes."""
        return cls(skin, {})

    @property
    def skin(self) -> Skin:
        """The skin with the draft's changes."""
        if not self.changes:
            return self.base
        colors = {**self.base.colors, **self.changes}
        page = colors["background"]
        dark = self.base.dark if page == DEFAULT else is_dark(colors)
        return replace(self.base, colors=colors, dark=dark)

    def color(self, role: str) -> str:
        """Return the colour of a role in the draft."""
        return self.changes.get(role, self.base.colors[role])

    def with_color(self, role: str, color: str) -> SkinDraft:
        """Return a draft with another colour for `role`, which must be normalized."""
        kept = {each: value for each, value in self.changes.items() if each != role}
        if color != self.base.colors[role]:
            kept[role] = color
        return SkinDraft(self.base, kept)

    def reset(self, role: str) -> SkinDraft:
        """Return a draft with the original colour of `role`."""
        return self.with_color(role, self.base.colors[role])


def color_of(text: str) -> str:
    """Parse `text` as a colour; return it in the form that skins store.

    Accepts `#rrggbb`, `#rgb`, a colour of the terminal (`ansi_red`), or a CSS name such as `steelblue`.
    Raises `ConfigError` with one sentence for anything else.
    """
    from textual.color import Color, ColorParseError

    typed = text.strip().lower()
    if not typed:
        raise ConfigError("A colour is missing; write #rrggbb, or a name such as ansi_red or steelblue.")
    for spelling in (typed, f"#{typed}"):
        if color := normalize_color(spelling):
            return color
    if typed.startswith("ansi"):
        raise ConfigError(
            f"`{short_line(typed)}` is not a colour of the terminal"
            f"{nearest(typed, (DEFAULT, *TERMINAL_COLORS))}"
        )
    if typed.isascii() and typed.isalpha():
        try:
            named = Color.parse(typed)
        except ColorParseError:
            named = None
        if named is not None and named.a == 1 and named.auto is False and named.ansi is None:
            return RGB(*named.rgb).hex
    raise ConfigError(
        f"`{short_line(typed)}` is not a colour; write #rrggbb, or a name such as ansi_red or steelblue."
    )


NAMES = tuple(ROLES)
SWATCH = "██"


async def edit(app: AppearancePort, name: str = "") -> None:
    """Edit the skin called `name`, or the current one; a saved skin becomes the current one and the default.

    Raises `HermesError` if the skin does not exist, or the choice cannot be saved.
    """
    looks = app.appearance
    skin = (await looks.read(name)).skin if name else looks.skin
    saved = await app.push_screen_wait(SkinEditorScreen(looks, skin))
    if saved is not None:
        await looks.apply(saved)
        await looks.save(saved)


class RoleList(RowList):
    """One row per colour role: its colour, its value, and its contrast."""

    def __init__(self, draft: SkinDraft) -> None:
        super().__init__(
            self._row, search_text=lambda index: f"{NAMES[index]} {ROLES[NAMES[index]]}", count=len(NAMES)
        )
        self._draft = draft
        self._figures: dict[str, ContrastFinding] = {}
        self._told: str | None = None

    @property
    def role(self) -> str | None:
        """The colour role under the cursor."""
        return None if self.cursor is None else NAMES[self.cursor]

    def show(self, draft: SkinDraft, figures: dict[str, ContrastFinding]) -> None:
        """Show the colours of a draft and their contrast."""
        before = [self._row_state(role) for role in NAMES]
        self._draft, self._figures = draft, figures
        for index, role in enumerate(NAMES):
            if self._row_state(role) != before[index]:
                self.update_row(index)

    def cursor_moved(self) -> None:
        super().cursor_moved()
        self._show_details()

    def repaint(self) -> None:
        super().repaint()
        # A filter may have left the cursor on another role.
        self._show_details()

    def _show_details(self) -> None:
        if self._told != self.role and self.is_attached and isinstance(self.screen, SkinEditorScreen):
            self._told = self.role
            self.screen.show_role()

    def _row_state(self, role: str) -> object:
        """Return everything that a role's row shows, to detect changes."""
        return self._draft.color(role), role in self._draft.changes, self._figures.get(role)

    def _row(self, index: int, width: int) -> list[Text]:
        role = NAMES[index]
        color, finding = self._draft.color(role), self._figures.get(role)
        hard = finding is not None and not finding.enough
        left = Text(" ").append("▲ " if hard else "  ", self.ink("warning"))
        left.append(SWATCH, Style(color=rich_color(color)) + Style(bgcolor=self.ink("text").bgcolor))
        left.append(f" {role:<19}", self.ink("text", bold=role in self._draft.changes))
        left.append(color.removeprefix("ansi_"), self.ink("accent" if role in self._draft.changes else "dim"))
        figure = "" if finding is None else f"{int(finding.ratio * 10) / 10}:1 "
        return [spread(left, Text(figure, self.ink("warning" if hard else "dim")), width)]


class SkinEditorScreen(ClosableScreen[str | None]):
    """The skin editor. Its result is the name under which the skin was last saved, or None."""

    CSS_PATH = "skin_editor.tcss"
    AUTO_FOCUS = "RoleList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back"),
        Binding("ctrl+s", "save", "Save"),
        Binding("d,delete", "reset", "Delete the change of this colour"),
        Binding("u", "undo", "Take back the last deletion"),
        HELP,
    ]

    def __init__(self, looks: Appearance, skin: Skin) -> None:
        super().__init__()
        self._looks = looks
        self.draft = SkinDraft.of(skin)
        self._saved: str | None = None
        self._before: list[tuple[str, str | None]] = []
        """The roles whose colours were reset, each with its changed colour before."""
        # Kept as an attribute, because a worker may resume while the screen is being removed.
        self._head = ScreenHeader("Skin editor")
        self._roles = RoleList(self.draft)
        self._preview = SkinPreview(self._reduced(self.draft.skin))
        self._about = Static(id="editor-about")
        self._value = Field(compact=True, id="editor-value", select_on_focus=True)
        self._says = Static(id="editor-says")
        self._keys = KeyLine()

    def compose(self) -> ComposeResult:
        yield self._head
        with Horizontal(id="editor-sides"):
            with Vertical(id="editor-roles"):
                yield self._roles
            yield self._preview
        yield self._about
        yield self._value
        yield self._says
        yield self._keys

    def on_mount(self) -> None:
        self.use(self._looks.palette)
        self._show(self.draft)

    def use(self, palette: Palette) -> None:
        """Repaint with these styles."""
        self._roles.use(palette)

    def _reduced(self, skin: Skin) -> Skin:
        return adapt_skin(skin, self._looks.depth)

    # Display

    def _show(self, draft: SkinDraft) -> None:
        """Replace the edited draft, and update everything that shows it."""
        self.draft = draft
        count = len(draft.changes)
        state = f"{plural(count, 'change')}, not saved" if count else "nothing changed"
        self._head.say(f"{draft.base.name} · {state}")
        self._roles.show(draft, tightest(draft.skin))
        self._preview.show(self._reduced(draft.skin))
        self.show_role()

    def show_role(self) -> None:
        """Show description and value of the role under the cursor, and its contrast problems."""
        role = self._roles.role
        value = self._value
        if role is None:
            return
        about = Content.assemble((role, "bold"), (f"  {ROLES[role]}", "$text-muted"))
        self._about.update(about)
        if not value.has_focus:
            with value.prevent(Input.Changed):
                value.value = self.draft.color(role)
            self._show_contrast(self.draft, role)
        self._show_keys()

    def _show_keys(self) -> None:
        typing = self._value.has_focus
        keys = "⏎ take it · esc as it was" if typing else "⏎ change · d reset · ^S save · / filter · esc back"
        self._keys.say(keys)

    def _show_contrast(self, draft: SkinDraft, role: str) -> None:
        """Show contrast problems with the colour of `role`, if any."""
        hard = [each for each in check(draft.skin) if role in (each.role, each.background)]
        more = f" And {len(hard) - 1} more." if len(hard) > 1 else ""
        self._say(Content.assemble(("▲ ", "$warning"), f"{hard[0]}{more}") if hard else Content(""))

    def _say(self, words: Content) -> None:
        self._says.update(words)

    # Changing a colour

    def on_row_list_activated(self) -> None:
        value = self._value
        value.focus()

    def on_descendant_focus(self, _event: events.DescendantFocus) -> None:
        self._show_keys()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        role = self._roles.role
        if role is None or not event.input.has_focus:
            return
        try:
            tried = self.draft.with_color(role, color_of(event.value))
        except ConfigError as error:
            self._say(Content.assemble((f"{glyph('failed')} ", "$error"), line(str(error))))
            return
        self._preview.show(self._reduced(tried.skin))
        self._show_contrast(tried, role)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        role = self._roles.role
        if role is None:
            return
        try:
            draft = self.draft.with_color(role, color_of(event.value))
        except ConfigError as error:
            self._say(Content.assemble((f"{glyph('failed')} ", "$error"), line(str(error))))
            return
        self._leave_value(draft)

    def _leave_value(self, draft: SkinDraft) -> None:
        self._roles.focus()
        self.call_after_refresh(self._show, draft)

    def action_reset(self) -> None:
        if role := self._roles.role:
            self._before.append((role, self.draft.changes.get(role)))
            self._show(self.draft.reset(role))

    def action_undo(self) -> None:
        """Undo the last reset of a colour."""
        if self._before:
            role, color = self._before.pop()
            self._show(self.draft.with_color(role, color) if color else self.draft)

    # Saving and leaving

    @work(exclusive=True, group="save")
    async def action_save(self) -> None:
        try:
            await self._save()
        except HermesError as error:
            self._say(Content.assemble((f"{glyph('failed')} ", "$error"), line(str(error))))

    async def _save(self) -> None:
        name = await self._ask_name()
        if name is None:
            return
        home = Home.locate()
        taken = await asyncio.to_thread(skin_files.own_file, home, name)
        same = taken is not None and name == self.draft.base.name
        if same and not self.draft.changes:
            self._say(Content("Nothing is changed, so there is nothing to save."))
            return
        if not await self._may_write(name, taken is not None, same):
            return
        draft, skin = self.draft, self.draft.skin
        if taken is not None and same:
            path = taken
            await asyncio.to_thread(skin_files.recolor, path, dict(draft.changes))
        else:
            path = await asyncio.to_thread(skin_files.replace, home, name, skin)
        saved = (await self._looks.read(name)).skin
        self._saved = name
        if not self.is_attached:
            return
        self._show(SkinDraft.of(saved))
        self._say(Content(f"{glyph('done')} Saved in {line(from_home(path))}; it is worn when you leave."))

    async def _ask_name(self) -> str | None:
        text = self.draft.base.name
        label = "Save as a skin of your own, called"
        while True:
            typed = await self.app.push_screen_wait(TextDialog(label, text))
            if typed is None:
                return None
            try:
                return skin_files.valid_name(typed)
            except ConfigError as error:
                label, text = str(error), typed

    async def _may_write(self, name: str, taken: bool, same: bool) -> bool:
        if same:
            count = len(self.draft.changes)
            colours = plural(count, "colour")
            question = f"Change {colours} in your skin {name}? The rest of its file stays."
            yes = "Change them"
        elif taken:
            question, yes = f"You have a skin {name} already. Replace its file?", "Replace it"
        elif skin_files.hides_builtin(name):
            question = f"{name} comes with Hermes. Your own skin of that name would take its place."
            yes = "Let mine take its place"
        else:
            return True
        return bool(await self.app.push_screen_wait(ConfirmDialog(question, yes)))

    @work(exclusive=True, group="save")
    async def action_back(self) -> None:
        if self._value.has_focus:
            self._leave_value(self.draft)
            return
        count = len(self.draft.changes)
        question = f"{plural(count, 'change')} of {self.draft.base.name} are not saved."
        if not count or await self.app.push_screen_wait(ConfirmDialog(question, "Drop and leave", "Stay")):
            self.dismiss(self._saved)


WIDTHS = [(0, "-narrow"), (82, "-wide")]
"""Screen classes by number of columns; a narrow screen shows only the list, without a preview."""
PAUSE = 0.03
"""Seconds that the cursor rests on a skin before it is applied, so that moving in the list stays quick."""


@dataclass(frozen=True, slots=True)
class SkinChoice:
    """The result of the list of skins: the skin to apply or edit."""

    name: str
    edit: bool = False
    """True to open the skin in the editor instead of saving the choice."""


async def choose(app: AppearancePort, name: str = "") -> None:
    """Apply and save the skin called `name`; without a name let the user choose one. Raises `HermesError`."""
    before = app.appearance.skin
    if not name:
        choice = await app.push_screen_wait(SkinsScreen(app.appearance))
        if choice is None or choice.edit:
            app.appearance.show(before)
        if choice is None:
            return
        if choice.edit:
            await edit(app, choice.name)
            return
        name = choice.name
    await app.appearance.apply(name)
    await app.appearance.save(name)


class SkinList(EntryRows[ListedSkin]):
    """The names of skins; the user's own ones are marked."""

    def __init__(self) -> None:
        super().__init__(key=lambda skin: skin.name, words=lambda skin: skin.name)
        self.background = "surface"
        self.worn = ""
        """The name of the skin in use when the list was opened."""

    @property
    def highlighted_name(self) -> str | None:
        """The name under the cursor."""
        return None if self.pointed is None else self.pointed.name

    def draw_entry(self, entry: ListedSkin, width: int) -> list[Text]:
        left = Text(" ").append(f"{IN_USE} " if entry.name == self.worn else "  ", self.ink("accent"))
        left.append(one_line(entry.name), self.ink("text"))
        return [spread(left, Text("yours " if entry.own else "", self.ink("dim")), width)]


class SkinsScreen(ClosableModal[SkinChoice | None]):
    """The list of skins, at the right edge. Its result is a skin to save or edit, or None to restore the
    previous one.
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
        """Repaint with these styles."""
        self.query_one(SkinList).use(palette)
        self.query_one(SkinPreview).show(palette.skin)

    async def on_mount(self) -> None:
        self.query_one(SkinList).use(self._looks.palette)
        skins = await asyncio.to_thread(list_skins, self._looks.folder)
        listed = self.query_one(SkinList)
        listed.worn = self._looks.skin.name
        listed.show(skins, listed.worn)

    def on_pointed_rows_pointed(self) -> None:
        """Apply the skin that the cursor moved to as a preview."""
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
            loaded = await self._looks.apply_silently(name)
        except HermesError as error:
            self._show_details(Content.assemble((f"{glyph('failed')} ", "$error"), line(str(error))))
            return
        if loaded is not None:
            self._show_details(about(loaded, await findings(loaded.skin)))

    def _show_details(self, words: Content) -> None:
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
