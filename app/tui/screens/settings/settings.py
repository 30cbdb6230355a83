"""The settings screen: all settings with the sources of their values, and editors to change them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_origin

from rich.cells import cell_len
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from agent.errors import ConfigError, HermesError
from app.tui.commands.keys import ALIASES, Keys, bindables, resolve
from app.tui.screens.closable import ClosableModal
from app.tui.screens.dialog import Choices, Dialog, Hints
from app.tui.screens.page import HELP, Field, KeyLine, ScreenHeader, line, palette_of, words
from app.tui.screens.settings.preferences import ENTRY_SCREENS, Preferences, Snapshot, takes_effect_at_once
from themes.states import DOUBT, IN_USE, glyph
from widgets.key_names import shown_key
from widgets.rows.row_list import HeadedRows
from widgets.rows.row_text import fit, spread

if TYPE_CHECKING:
    from agent.core.config.layers import SettingSource
    from agent.core.config.loader import LoadedSettings
    from agent.core.config.problem import Path as KeyPath


Kind = Literal["heading", "entry", "switch", "choice", "text", "keys", "fixed"]

TITLES = {
    "local": "Model on this machine",
    "homeassistant": "Home Assistant",
    "mcp_servers": "MCP servers",
}
MASK = "••••"
OWN_FILE, PROJECT_FILE = "config.yaml", ".hermes/config.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One line of the settings screen."""

    key: str
    """The dotted key of a setting; for a heading, the section."""
    name: str
    """The name shown below the heading."""
    kind: Kind
    value: str = ""
    """The effective value as text, without secrets."""
    given: str | None = None
    """The text an editor starts with; None if it would show a secret."""
    default: str = ""
    help: str = ""
    takes: str = ""
    origin: str = ""
    """The file or variable that the value comes from; empty for a default."""
    overridden: str = ""
    """The reason why the value in the user's own file has no effect; empty if it has."""
    is_own: bool = False
    """True if the user's own file contains the setting."""
    choices: tuple[str, ...] = ()

    @property
    def effect(self) -> str:
        """When a change takes effect, in words."""
        return "now" if takes_effect_at_once(self.key) else "from the next session"

    @property
    def label(self) -> str:
        """A short name in words; for a key binding, the name of its command."""
        if self.kind == "entry":
            return self.name
        if self.kind == "keys":
            return self.help or self.name
        words = self.name.replace("_", " ").replace(".", ": ")
        return words[:1].upper() + words[1:]

    @property
    def search_text(self) -> str:
        """The text that the filter searches."""
        return f"{self.key} {self.label} {self.value} {self.origin or 'default'} {self.help}"


def rows(
    loaded: LoadedSettings, own: LoadedSettings, keys: Keys, opened: Collection[str] = ()
) -> list[SettingRow]:
    """Return the rows of all settings, by section. `own` holds the settings of the user's file alone; a
    provider or a server is one row, followed by its settings if its key is in `opened`.
    """
    from agent.core.config.schema import Settings

    found: list[SettingRow] = []
    for section in Settings.model_fields:
        if section in ENTRY_SCREENS:
            members = list(_entry_rows(section, loaded, own, opened))
        else:
            members = list(_members((section,), loaded, own, keys))
        title = TITLES.get(section, section.capitalize())
        searched = " ".join([title, *(row.search_text for row in members)])
        found.append(SettingRow(key=section, name=title, kind="heading", help=searched))
        found += members
    return found


def _entry_rows(
    section: str, loaded: LoadedSettings, own: LoadedSettings, opened: Collection[str]
) -> Iterator[SettingRow]:
    """Yield a row for each entry, followed by its settings if it is opened, and one for the whole section."""
    for name in _value_at(loaded, (section,)):
        path, key = (section, name), f"{section}.{name}"
        members = list(_members(path, loaded, own))
        given = {row.name.removeprefix(f"{name}."): row.value for row in members if row.origin}
        place = [given[part] for part in ("base_url", "url", "command", "args") if part in given]
        yield SettingRow(
            key=key,
            name=name,
            kind="entry",
            value=" ".join(place).replace(", ", " "),
            help=", ".join(f"{part} {value}" for part, value in given.items()) or "nothing of its own",
            origin=_origin(_source(loaded, path)),
            overridden=_override_text(path, loaded, own),
            is_own=_source(own, path) is not None,
        )
        if key in opened:
            yield from members
    yield SettingRow(key=section, name="All of them", kind="entry", value="⏎ opens the list, n adds one")


def _members(
    at: KeyPath, loaded: LoadedSettings, own: LoadedSettings, keys: Keys | None = None
) -> Iterator[SettingRow]:
    from agent.core.config import setting_names as names

    if keys is not None and at == ("keys",):
        yield from _key_rows(loaded, own, keys)
        return
    for path in _paths(at, names.type_at(at), _value_at(loaded, at)):
        field = names.field_at(path)
        if field is not None:
            yield _setting(path, field, loaded, own)


def _paths(path: KeyPath, annotation: Any, value: Any) -> Iterator[KeyPath]:
    """Yield the paths of all settings below `path`; in mappings with free keys, those of existing keys."""
    from agent.core.config import setting_names as names

    if section := names.section_of(annotation):
        for name, field in section.model_fields.items():
            yield from _paths((*path, name), field.annotation, _member(value, name))
    elif names.section_of(entry := names.entry_of(annotation)) is not None:
        for name in value or {}:
            yield from _paths((*path, name), entry, _member(value, name))
    else:
        yield path


def _setting(path: KeyPath, field: Any, loaded: LoadedSettings, own: LoadedSettings) -> SettingRow:
    from agent.core.config import setting_names as names
    from agent.core.config.reference import default

    key = ".".join(map(str, path))
    value = _value_at(loaded, path)
    kind, choices = _kind(field.annotation)
    secret = names.is_secret(path)
    shown = _text(value, secret=secret)
    return SettingRow(
        key=key,
        name=key.partition(".")[2],
        kind="fixed" if secret else kind,
        value=shown,
        given=None if secret else _initial_text(_value_at(own, path)),
        default=default(field).strip("`"),
        help=field.description or "",
        takes=names.accepted_values(field),
        origin=_origin(_source(loaded, path)),
        overridden=_override_text(path, loaded, own, secret=secret),
        is_own=_source(own, path) is not None,
        choices=choices,
    )


def _kind(annotation: Any) -> tuple[Kind, tuple[str, ...]]:
    """Return the kind of editor for a setting of this type, and its choices, if any."""
    if annotation is bool:
        return "switch", ("true", "false")
    if get_origin(annotation) is Literal:
        return "choice", tuple(map(str, get_args(annotation)))
    parts = [part for part in get_args(annotation) if part is not NoneType]
    if NoneType in get_args(annotation) and len(parts) == 1 and get_origin(parts[0]) is Literal:
        return "choice", (*map(str, get_args(parts[0])), "unset")
    return "text", ()


def _key_rows(loaded: LoadedSettings, own: LoadedSettings, keys: Keys) -> Iterator[SettingRow]:
    """Yield a row for each command that can have keys, and for unknown commands in the settings."""
    wishes = loaded.settings.keys
    for id, each in bindables().items():
        by_default = " ".join(map(shown_key, each.keys)) or "none"
        said = next((name for name in (id, *_aliases(id)) if name in wishes), id)
        yield _key_row(said, each.name, keys.of(id), by_default, loaded, own)
    for id in wishes:
        if ALIASES.get(id, id) not in bindables():
            yield _key_row(id, "There is no such command.", (), "none", loaded, own)


def _aliases(id: str) -> list[str]:
    return [other for other, meant in ALIASES.items() if meant == id]


def _key_row(
    id: str,
    name: str,
    in_force: tuple[str, ...],
    by_default: str,
    loaded: LoadedSettings,
    own: LoadedSettings,
) -> SettingRow:
    path = ("keys", id)
    return SettingRow(
        key=f"keys.{id}",
        name=id,
        kind="keys",
        value=" ".join(map(shown_key, in_force)) or "none",
        given=own.settings.keys.get(id, ", ".join(in_force)),
        default=by_default,
        help=name,
        takes="keys as `ctrl+l` or `f5`, separated by commas; nothing for none",
        origin=_origin(_source(loaded, path)),
        overridden=_override_text(path, loaded, own),
        is_own=_source(own, path) is not None,
    )


# Values and their origins


def _member(value: Any, name: object) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, str(name), None)


def _value_at(loaded: LoadedSettings, path: KeyPath) -> Any:
    value: Any = loaded.settings
    for part in path:
        value = _member(value, part)
    return value


def _source(loaded: LoadedSettings, path: KeyPath) -> SettingSource | None:
    """Return the source of a setting; for a mapping, that of its first entry."""
    direct = loaded.sources.get(path)
    below = (source for at, source in loaded.sources.items() if at[: len(path)] == path)
    return direct or next(below, None)


def _origin(source: SettingSource | None) -> str:
    if source is None:
        return ""
    if source.place is None:
        return source.origin
    where = "project" if source.origin == PROJECT_FILE else source.origin
    return f"{where}:{source.place.line}"


def _override_text(
    path: KeyPath, loaded: LoadedSettings, own: LoadedSettings, *, secret: bool = False
) -> str:
    source, mine = _source(loaded, path), _source(own, path)
    if source is None or source.origin == OWN_FILE:
        return ""
    if source.origin == PROJECT_FILE:
        why, end = f"This project sets it ({source})", "the project no longer does"
    else:
        why, end = f"The variable {source.origin} sets it", "the variable is gone"
    if mine is None:
        return f"{why}. A change is written to your file and counts once {end}."
    return f"{why}; your own {_text(_value_at(own, path), secret=secret)} ({mine}) counts once {end}."


def _text(value: Any, *, secret: bool = False) -> str:
    """Return a value as one line, with secrets masked."""
    from tools.text.redact import redact
    from widgets.rows.row_text import one_line

    if value is None:
        return "unset"
    if value in ("", [], {}):
        return "empty"
    if secret:
        return MASK
    if isinstance(value, list):
        return one_line(redact(", ".join(map(str, value))))
    return one_line(redact(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))


def _initial_text(value: Any) -> str | None:
    """Return the text that an editor starts with; None if it would reveal a secret."""
    from tools.text.redact import redact

    if value is None:
        return ""
    if isinstance(value, list):
        text = (
            ", ".join(map(str, value)) if all("," not in str(item) for item in value) else json.dumps(value)
        )
    else:
        text = value if isinstance(value, str) else json.dumps(value)
    return text if redact(text) == text else None


Take = Callable[[str], Awaitable[None]]
"""Accepts the typed text; raises `HermesError` with a sentence if it is invalid."""


class LineEditor(Dialog[bool]):
    """A one-line editor for a setting. It shows errors until a value is accepted, and then returns True."""

    at_once = True

    def __init__(self, row: SettingRow, take: Take) -> None:
        super().__init__(self._type)
        self._row = row
        self._take = take

    def body(self) -> ComposeResult:
        row = self._row
        yield Static(Content.assemble((line(row.key), "bold")), classes="name")
        yield words(row.help.replace("`", ""))
        yield Static(Content(f"Takes {row.takes.replace('`', '')}."), classes="note")
        hidden = "" if row.given is not None else "the present value is not shown; type a new one"
        yield Field(line(row.given or ""), placeholder=hidden, compact=True)
        yield Static(Content(""), classes="who", id="refusal")
        yield Hints()

    def entry(self) -> Widget:
        return self.query_one(Input)

    def on_input_changed(self) -> None:
        self._refuse("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._submit(event.value)

    @work(exclusive=True, group="take")
    async def _submit(self, text: str) -> None:
        try:
            await self._take(text.strip())
        except HermesError as error:
            self._refuse(str(error))
        else:
            self.dismiss(True)

    def _refuse(self, sentence: str) -> None:
        self.query_one("#refusal", Static).update(Content("\n".join(map(line, sentence.splitlines()))))

    def decline(self) -> None:
        self.dismiss(False)

    def _type(self, text: str) -> None:
        self.query_one(Input).insert_text_at_cursor(text)


class ChoiceEditor(Dialog[str | None]):
    """The possible values of a setting. Its result is the chosen value, or None."""

    at_once = True

    def __init__(self, row: SettingRow) -> None:
        super().__init__()
        self._row = row

    def body(self) -> ComposeResult:
        row = self._row
        yield Static(Content.assemble((line(row.key), "bold")), classes="name")
        yield words(row.help.replace("`", ""))
        present = row.value if row.value in row.choices else row.default
        at = row.choices.index(present) if present in row.choices else 0
        shown = [f"{each} (default)" if each == row.default else each for each in row.choices]
        yield Choices(shown, chosen=at)
        yield Hints()

    def on_option_list_option_selected(self, event: Choices.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._row.choices[event.option_index])

    def decline(self) -> None:
        self.dismiss(None)


NAME_CELLS, NAME_SHARE = 30, 0.3
"""The smallest width of the labels in cells, and their share of a wide screen."""
WIDE, KEY_CELLS = 110, 26
"""The width in cells from which the keys are shown beside the labels, and the width of their column."""


class SettingsList(HeadedRows):
    """A list of `SettingRow`s. It sends `Moved` when the cursor moves."""

    class Moved(Message):
        """Sent when the cursor moves to another row."""

    def __init__(self, rows: Sequence[SettingRow], *, id: str | None = None) -> None:
        self._take(rows)
        super().__init__(
            self._lines,
            search_text=lambda index: self.rows[index].search_text,
            count=len(self.rows),
            id=id,
        )

    def _take(self, rows: Sequence[SettingRow]) -> None:
        self.rows = list(rows)
        self._widest = max((cell_len(each.label) for each in rows if each.kind != "heading"), default=0)

    @property
    def row(self) -> SettingRow | None:
        """The row under the cursor."""
        at = self.cursor
        return self.rows[at] if at is not None and at < len(self.rows) else None

    def show(self, rows: Sequence[SettingRow]) -> None:
        """Replace the rows; the cursor stays on its setting."""
        key = self.row.key if self.row is not None else ""
        same = [row.key for row in rows] == [row.key for row in self.rows]
        self._take(rows)
        if same:
            self.repaint()
        else:
            self.reset(len(rows))
            self.move_to(next((at for at, row in enumerate(rows) if row.key == key), 0))
        self.cursor_moved()

    def on_mount(self) -> None:
        self.action_first()

    def is_heading(self, index: int) -> bool:
        return self.rows[index].kind == "heading"

    def repaint(self) -> None:
        """Repaint all lines, and move the cursor off a heading that a filter put it on."""
        super().repaint()
        if self.is_mounted:
            self.leave_heading(1)
            self.cursor_moved()

    def cursor_moved(self) -> None:
        super().cursor_moved()
        self.post_message(self.Moved())

    def _lines(self, index: int, width: int) -> list[Text]:
        row = self.rows[index]
        if row.kind == "heading":
            line = Text(" ").append(row.name, self.ink("accent", bold=True))
            line = fit(line.append(f"  {row.value}", self.ink("dim")), width)
            return [line] if index == 0 else [Text(), line]
        return [self._line(row, width)]

    def _line(self, row: SettingRow, width: int) -> Text:
        most = max(int(width * NAME_SHARE), NAME_CELLS) if width >= 60 else int(width * 0.42)
        cells = min(self._widest + 2, most)
        name = fit(Text(row.label, self.ink("text")), cells - 1)
        name.append(" " * (cells - name.cell_len))
        if width >= WIDE and row.kind != "entry":
            name.append_text(fit(Text(row.name, self.ink("dim")), KEY_CELLS - 1))
            name.append(" " * (cells + KEY_CELLS - name.cell_len))
        changed = bool(row.origin)
        value = Text(row.value, self.ink("accent" if changed else "dim"))
        origin = row.origin or ("" if row.key in ENTRY_SCREENS else "default")
        right = Text(origin, self.ink("warning" if row.overridden else "dim"))
        if width >= 76 and origin:
            right.append(f" · {row.effect.removeprefix('from the ')}", self.ink("dim"))
        gutter = Text(f" {DOUBT} " if row.overridden else f" {IN_USE} " if row.is_own else "   ")
        gutter.stylize(self.ink("warning" if row.overridden else "accent"))
        left = Text.assemble(gutter, name, value)
        return spread(left, right.append(" "), width)


class SettingsScreen(ClosableModal[None]):
    """A list of all settings in `config.yaml`, with an explanation of the one under the cursor."""

    CSS_PATH = "settings.tcss"
    AUTO_FOCUS = "SettingsList"
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (14, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f2,q", "dismiss", "back"),
        Binding("d,delete", "reset", "Delete it from your file, so that the default applies"),
        Binding("u", "undo", "Take back the last deletion"),
        Binding("s", "scope", "All settings, or what differs from the default"),
        Binding("n", "add", "Add a provider or an MCP server, in their sections"),
        Binding("i", "details", "List the settings of a provider or an MCP server, or hide them"),
        Binding("tab", "section(1)", "Next section"),
        Binding("shift+tab", "section(-1)", "Previous section"),
        HELP,
    ]

    def __init__(self, snapshot: Snapshot, keeper: Preferences) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._keeper = keeper
        self._removed: list[tuple[SettingRow, Callable[[], Awaitable[object]]]] = []
        """Settings deleted here, each with a function that restores it, the last one last."""
        self._opened: set[str] = set()
        """Keys of providers and servers whose settings are listed."""
        self._head = ScreenHeader("Settings")
        self._only_changed = False
        self.list = SettingsList(self._rows())

    def compose(self) -> ComposeResult:
        yield self._head
        yield Static(id="settings-problems")
        yield self.list
        yield Static(id="settings-about")
        yield KeyLine()

    def on_mount(self) -> None:
        self._apply_skin()
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self._apply_skin())
        self._show_details()

    def _apply_skin(self) -> None:
        self.list.use(palette_of(self.app))

    def on_settings_list_moved(self) -> None:
        self._describe()

    def on_row_list_activated(self, event: SettingsList.Activated) -> None:
        event.stop()
        row = self.list.rows[event.index]
        if row.kind == "heading":
            return
        if row.kind == "fixed":
            self._show_problem(f"{row.key} may hold secrets and is changed in {self._snapshot.file} only.")
        else:
            self._edit(row)

    @work(exclusive=True, group="edit")
    async def _edit(self, row: SettingRow) -> None:
        app = self.app
        try:
            match row.kind:
                case "switch":
                    await self._keeper.change(row.key, "false" if row.value == "true" else "true")
                case "choice":
                    chosen = await app.push_screen_wait(ChoiceEditor(row))
                    if chosen is None:
                        return
                    await self._keeper.change(row.key, "" if chosen == "unset" else chosen)
                case "entry":
                    await self._edit_entry(row)
                case _:
                    if not await app.push_screen_wait(LineEditor(row, lambda text: self._take(row, text))):
                        return
        except HermesError as error:
            self._show_problem(str(error))
            return
        await self._read_again(row)

    async def _edit_entry(self, row: SettingRow, name: str = "") -> None:
        section, _, own = row.key.partition(".")
        await self._keeper.edit_entry(section, name or own)

    @work(exclusive=True, group="edit")
    async def action_add(self) -> None:
        row = self.list.row
        if row is not None and row.key.partition(".")[0] in ENTRY_SCREENS:
            await self._edit_entry(row, "add")
            await self._read_again(row)

    def action_details(self) -> None:
        row = self.list.row
        if row is not None and row.kind == "entry":
            self._opened ^= {row.key}
            self.list.show(self._rows())

    async def _take(self, row: SettingRow, text: str) -> None:
        if row.kind == "keys":
            id = row.key.partition(".")[2]
            wishes = {**self._snapshot.loaded.settings.keys, id: text}
            for problem in resolve(wishes).problems:
                if problem.startswith(f"`keys.{id}`"):
                    raise ConfigError(problem)
        await self._keeper.change(row.key, text)

    @work(exclusive=True, group="edit")
    async def action_reset(self) -> None:
        row = self.list.row
        if row is None or row.kind == "heading":
            return
        if not row.is_own:
            self.app.notify(f"{row.key} is not in your file.", markup=False)
            return
        try:
            self._removed.append((row, await self._keeper.reset(row.key)))
        except HermesError as error:
            self._show_problem(str(error))
            return
        await self._read_again(row)

    @work(exclusive=True, group="change")
    async def action_undo(self) -> None:
        if not self._removed:
            self.app.notify("Nothing was deleted here yet.", markup=False)
            return
        row, put_back = self._removed.pop()
        try:
            await put_back()
        except HermesError as error:
            self._show_problem(str(error))
        else:
            await self._read_again(row)

    async def _read_again(self, row: SettingRow) -> None:
        self._snapshot = await self._keeper.read()
        self.list.show(self._rows())
        self._show_details()
        now = self.list.row
        if now is not None and now.key == row.key and now.overridden:
            self._show_problem(now.overridden)

    def _rows(self) -> list[SettingRow]:
        loaded = self._snapshot.loaded
        found = rows(loaded, self._snapshot.own, resolve(loaded.settings.keys), self._opened)
        if not self._only_changed:
            return found
        kept = [row for row in found if row.kind == "heading" or row.origin or row.is_own]
        # A section without anything of its own has no heading either.
        return [
            row
            for row, after in zip(kept, [*kept[1:], None], strict=True)
            if row.kind != "heading" or (after is not None and after.kind != "heading")
        ]

    def action_scope(self) -> None:
        """Switch between all settings and only those that differ from their defaults."""
        self._only_changed = not self._only_changed
        self.list.show(self._rows())
        self._show_details()

    def action_section(self, step: int) -> None:
        """Move to the first setting of the next or the previous section."""
        at = self.list.cursor or 0
        heads = [place for place, row in enumerate(self.list.rows) if row.kind == "heading"]
        here = max((number for number, place in enumerate(heads) if place <= at), default=0)
        if heads:
            self.list.move_to(heads[(here + step) % len(heads)])
            self.list.leave_heading(1)
            self._describe()

    # Texts

    def _show_problem(self, sentence: str) -> None:
        self.app.notify(line(sentence), severity="warning", timeout=8, markup=False)

    def _show_details(self) -> None:
        self._head.say(str(self._snapshot.file))
        wrong = problems(self._snapshot)
        told = self.query_one("#settings-problems", Static)
        told.update(wrong)
        told.display = bool(wrong)
        keys = resolve(self._snapshot.loaded.settings.keys)
        change, find = map(keys.label, ("rows.open", "rows.filter"))
        scope = "all" if self._only_changed else "changed only"
        hints = f"{change} change · tab section · s {scope} · {find} search · d default · ? keys · esc back"
        self.query_one(KeyLine).say(hints)
        self._describe()

    def _describe(self) -> None:
        if self.is_mounted:
            self.query_one("#settings-about", Static).update(about(self.list.row))


def about(row: SettingRow | None) -> Content:
    """Return a setting's meaning, possible values and time of effect, in a few lines. Pure."""
    if row is None or row.kind == "heading":
        return Content("")
    parts: list[str | tuple[str, str]] = [(line(row.key), "bold"), f"  {line(_plain(row.help))}\n"]
    taken = f"Takes {_plain(row.takes)}. Default: {line(row.default)}. Takes effect {row.effect}."
    if row.kind == "entry":
        taken = "⏎ opens the screen that adds, checks and deletes them, n adds one, i lists single settings."
    parts.append((taken, "$text-muted"))
    if row.overridden:
        parts.append((f"\n{DOUBT} {line(row.overridden)}", "$warning"))
    return Content.assemble(*parts)


def _plain(words: str) -> str:
    return words.replace("`", "")


def problems(snapshot: Snapshot) -> Content:
    """Return the first two problems of the settings, and the number of others. Pure."""
    loaded = snapshot.loaded
    told = [str(problem) for problem in loaded.problems]
    told += resolve(loaded.settings.keys).problems
    if loaded.project == "untrusted":
        told.append("This project brings settings that are not read; see `hermes config trust`.")
    shown = [f"{glyph('failed')} {line(each)}" for each in told[:2]]
    if len(told) > 2:
        shown.append(f"and {len(told) - 2} more; `hermes config check` tells all.")
    return Content.assemble(("\n".join(shown), "$error"))
