"""All settings on one screen: what they are, where they come from, and changing them."""

from __future__ import annotations

from typing import ClassVar, Protocol

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from agent.errors import ConfigError, HermesError
from app.tui.commands.keys import resolve
from app.tui.screens.closable import ClosableModal
from app.tui.screens.head import ScreenHeader
from app.tui.screens.keyline import KeyLine
from app.tui.screens.settings.preferences import Snapshot
from app.tui.screens.settings.settings_edit import ChoiceEditor, LineEditor
from app.tui.screens.settings.settings_list import SettingsList
from app.tui.screens.settings.settings_rows import SettingRow, rows
from app.tui.screens.wording import line
from widgets.palette import Palette


class SettingsKeeper(Protocol):
    """Reads and changes settings; `app.preferences.Preferences` is the real one."""

    async def read(self) -> Snapshot: ...

    async def change(self, key: str, text: str) -> None: ...

    async def reset(self, key: str) -> None: ...


class SettingsScreen(ClosableModal[None]):
    """A list of everything in `config.yaml`; below it what the setting under the cursor means."""

    CSS_PATH = "settings.tcss"
    AUTO_FOCUS = "SettingsList"
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-low"), (14, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f2,q", "dismiss", "back"),
        Binding("r,delete", "reset", "default"),
    ]

    def __init__(self, snapshot: Snapshot, keeper: SettingsKeeper, palette: Palette | None = None) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._keeper = keeper
        self._palette = palette
        self._head = ScreenHeader("Settings")
        self.list = SettingsList(self._rows())

    def compose(self) -> ComposeResult:
        yield self._head
        yield Static(id="settings-problems")
        yield self.list
        yield Static(id="settings-about")
        yield KeyLine()

    def on_mount(self) -> None:
        if self._palette is not None:
            self.use(self._palette)
        self._tell()

    def use(self, palette: Palette) -> None:
        """Draw in the styles of another skin."""
        self.list.use(palette)

    def on_settings_list_moved(self) -> None:
        self._describe()

    def on_row_list_activated(self, event: SettingsList.Activated) -> None:
        event.stop()
        row = self.list.rows[event.index]
        if row.kind == "heading":
            return
        if row.kind == "fixed":
            self._complain(f"{row.key} may hold secrets and is changed in {self._snapshot.file} only.")
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
                case _:
                    if not await app.push_screen_wait(LineEditor(row, lambda text: self._take(row, text))):
                        return
        except HermesError as error:
            self._complain(str(error))
            return
        await self._read_again(row)

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
            await self._keeper.reset(row.key)
        except HermesError as error:
            self._complain(str(error))
        else:
            await self._read_again(row)

    async def _read_again(self, row: SettingRow) -> None:
        self._snapshot = await self._keeper.read()
        self.list.show(self._rows())
        self._tell()
        now = self.list.row
        if now is not None and now.key == row.key and now.overridden:
            self._complain(now.overridden)

    def _rows(self) -> list[SettingRow]:
        loaded = self._snapshot.loaded
        return rows(loaded, self._snapshot.own, resolve(loaded.settings.keys))

    # What is said

    def _complain(self, sentence: str) -> None:
        self.app.notify(line(sentence), severity="warning", timeout=8, markup=False)

    def _tell(self) -> None:
        self._head.say(str(self._snapshot.file))
        wrong = problems(self._snapshot)
        told = self.query_one("#settings-problems", Static)
        told.update(wrong)
        told.display = bool(wrong)
        keys = resolve(self._snapshot.loaded.settings.keys)
        change, find, copy = map(keys.shown, ("rows.open", "rows.filter", "rows.copy"))
        hints = f"{change} change · r default · {find} filter · {copy} copy · esc back"
        self.query_one(KeyLine).say(hints)
        self._describe()

    def _describe(self) -> None:
        if self.is_mounted:
            self.query_one("#settings-about", Static).update(about(self.list.row))


def about(row: SettingRow | None) -> Content:
    """What a setting means, takes and does, in a few lines. Pure."""
    if row is None or row.kind == "heading":
        return Content("")
    parts: list[str | tuple[str, str]] = [(line(row.key), "bold"), f"  {line(_plain(row.help))}\n"]
    taken = f"Takes {_plain(row.takes)}. Default: {line(row.default)}. Felt {_when(row)}."
    parts.append((taken, "$text-muted"))
    if row.overridden:
        parts.append((f"\n◆ {line(row.overridden)}", "$warning"))
    return Content.assemble(*parts)


def _plain(words: str) -> str:
    return words.replace("`", "")


def _when(row: SettingRow) -> str:
    return "at once" if row.effect == "at once" else "with the next session"


def problems(snapshot: Snapshot) -> Content:
    """What is wrong with the settings: the first two, and how many more. Pure."""
    loaded = snapshot.loaded
    told = [str(problem) for problem in loaded.problems]
    told += resolve(loaded.settings.keys).problems
    if loaded.project == "untrusted":
        told.append("This project brings settings that are not read; see `hermes config trust`.")
    shown = [f"✗ {line(each)}" for each in told[:2]]
    if len(told) > 2:
        shown.append(f"and {len(told) - 2} more; `hermes config check` tells all.")
    return Content.assemble(("\n".join(shown), "$error"))
