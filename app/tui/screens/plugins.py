"""The screen of plugins: their contents, permissions and problems; enabling and disabling them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, Protocol

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType
from textual.content import Content

from agent.core.home import from_home
from agent.errors import HermesError
from app.tui.screens.dialog import ChangeDialog, ConfirmDialog
from app.tui.screens.entry_page import DetailScreen, EntryPage, EntryRows, difference_parts
from app.tui.screens.page import line
from tools.text.safe_text import clean
from widgets.rows.row_list import RowList
from widgets.rows.row_text import one_line, spread

MARKS = {"enabled": "●", "disabled": "○", "changed": "✗", "broken": "✗", "refused": "✗"}
FAILED = "!"
"""Marks a plugin that is used and whose code failed in this session."""
MOST_ASKED = 10
"""Lines of permissions that the question repeats; the details show all of them."""
CHANGED = "Changed since you agreed"
LATER = "from the next session on"

PluginState = Literal["enabled", "disabled", "changed", "broken", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRow:
    """A plugin, or a folder that is not a valid plugin."""

    name: str
    version: str
    place: str
    description: str
    state: PluginState
    folder: Path
    reason: str = ""
    """The reason why it is not used."""
    may: tuple[str, ...] = ()
    """Its contents and permissions, and parts that are not used: a line each."""
    changed: tuple[str, ...] = ()
    """Files changed since the person agreed, with `+`, `-` or `~` in front."""
    difference: str = ""
    """Changed lines of these files, as unified diffs."""
    seen: str = ""
    """One hash of all files as they are shown here."""
    registered: tuple[str, ...] = ()
    """What its code registered when the person agreed, a line each."""
    printed: tuple[str, ...] = ()
    """The last lines that its code printed."""
    failed: str = ""
    """Failures of its code in this session, in sentences."""
    needs: str = ""
    """Further agreements needed on the command line; empty if there are none."""


AgreeTo = Callable[[Sequence[str]], Awaitable[bool]]
"""Asks for agreement to services, given a sentence for each."""


class PluginPort(Protocol):
    """The source of the plugins."""

    def load(self) -> Sequence[PluginRow]:
        """Return all plugins. Touches the disk."""
        ...

    async def enable(self, row: PluginRow, agree_to: AgreeTo) -> str:
        """Agree to a plugin's current files; return a sentence about the result. Raises `HermesError`.

        `agree_to` asks about services that the plugin's code offers, which are known only once it is loaded.
        """
        ...

    def disable(self, row: PluginRow) -> None:
        """Withdraw the agreement to a plugin. Raises `HermesError`."""
        ...


class PluginsScreen(EntryPage[None, PluginRow]):
    """The list of plugins. Changes take effect with the next session."""

    heading = "Plugins"
    keys = "e enable · d disable · ⏎ in full · / filter · ? help · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "enable", "Agree to the plugin as its files are now", id="plugins.enable"),
        Binding("d", "disable", "Use the plugin no longer", id="plugins.disable"),
    ]

    def __init__(self, plugins: PluginPort) -> None:
        super().__init__(PluginRows())
        self._plugins = plugins

    def about(self, entry: PluginRow) -> Content:
        return about(entry)

    def on_mount(self) -> None:
        self._load()

    def on_row_list_activated(self, event: RowList.Activated) -> None:
        event.stop()
        if (row := self.pointed) is not None:
            self.app.push_screen(DetailScreen(f"Plugin {row.name}", in_full(row), spelled=True, diffs=True))

    @work(exclusive=True, group="list")
    async def _load(self, at: str = "") -> None:
        rows = await asyncio.to_thread(self._plugins.load)
        used = sum(row.state == "enabled" for row in rows)
        self.list_entries(rows, f"{used} used · {len(rows) - used} not" if rows else "", at)

    @work(exclusive=True, group="change")
    async def action_enable(self) -> None:
        row = self.pointed
        if row is None or row.state == "enabled":
            return
        if row.state in ("broken", "refused") or row.needs:
            why = row.needs or row.reason
            self.notify(line(f"{row.name} cannot be enabled here: {why}."), severity="warning", markup=False)
            return
        if not await self.app.push_screen_wait(ChangeDialog(question(row), row.difference, "Enable")):
            return
        try:
            said = await self._plugins.enable(row, partial(self._agree_to, row))
        except HermesError as error:
            self.complain(error)
            return
        self.notify(line(said), markup=False)
        self._load(row.name)

    async def _agree_to(self, row: PluginRow, services: Sequence[str]) -> bool:
        text = "\n".join(map(clean, [f"Use the services of {row.name}?", "", *services]))
        return bool(await self.app.push_screen_wait(ConfirmDialog(text, "Use them", "Do without")))

    @work(exclusive=True, group="change")
    async def action_disable(self) -> None:
        row = self.pointed
        if row is None or row.state not in ("enabled", "changed"):
            return
        try:
            await asyncio.to_thread(self._plugins.disable, row)
        except HermesError as error:
            self.complain(error)
            return
        self.notify(line(f"{row.name} is not used {LATER}."), markup=False)
        self._load(row.name)


class PluginRows(EntryRows[PluginRow]):
    """One row per plugin: whether it is used, name, description, folder."""

    def __init__(self) -> None:
        super().__init__(
            key=lambda row: row.name,
            words=lambda row: f"{row.name} {row.description}",
            empty="There are no plugins here; `hermes plugin create NAME` begins one.",
        )

    def draw_entry(self, entry: PluginRow, width: int) -> list[Text]:
        ink = {"enabled": "success", "disabled": "dim"}.get(entry.state, "error")
        mark = MARKS[entry.state]
        if entry.failed:
            ink, mark = "error", FAILED
        left = Text(" ").append(f"{mark} ", self.ink(ink))
        left.append(f"{entry.name:<20} ", self.ink("text" if entry.state == "enabled" else "dim"))
        failed = entry.failed.removeprefix(f"The plugin {entry.name} ")
        why = entry.reason if entry.state == "changed" else ""
        left.append(one_line(failed or why or entry.description or entry.reason), self.ink("dim"))
        return [spread(left, Text(f" {entry.place} ", self.ink("dim")), width)]


def question(row: PluginRow) -> str:
    """Return the question before enabling: contents, permissions and changes of the plugin. Pure."""
    lines = [f"Enable {row.name}?", "", *row.may[:MOST_ASKED]]
    if len(row.may) > MOST_ASKED:
        lines.append(f"… and {len(row.may) - MOST_ASKED} more lines beside the list")
    if row.changed:
        lines += ["", "Changed since you agreed:", *row.changed[:MOST_ASKED]]
        if len(row.changed) > MOST_ASKED:
            lines.append(f"… and {len(row.changed) - MOST_ASKED} more files beside the list")
    return "\n".join(map(clean, lines))


def _capitalize(reason: str) -> str:
    """Capitalize the first letter of a clause unless it begins with a file name."""
    return reason if "." in reason.partition(" ")[0] else reason[:1].upper() + reason[1:]


def about(row: PluginRow) -> Content:
    """Return the details of a plugin. Pure."""
    version = f" {row.version}" if row.version else ""
    parts: list[tuple[str, str] | str] = [
        (clean(f"{row.name}{version}"), "bold"),
        (f" · {row.place} · {row.state}\n", "$text-muted"),
    ]
    if row.reason:
        parts.append(
            (
                f"{clean(_capitalize(row.reason))}.\n",
                "$error" if row.state in ("broken", "changed") else "$warning",
            )
        )
    if row.failed:
        parts.append((f"{clean(row.failed)}\n", "$error"))
    if row.description:
        parts.append(f"{clean(row.description)}\n")
    for title, lines, tone in sections(row):
        parts.append((f"\n{title}\n", "$text-muted"))
        parts += [(f"  {clean(each)}\n", tone) if tone else f"  {clean(each)}\n" for each in lines]
        if title == CHANGED:
            parts += difference_parts(row.difference, "⏎ shows all")
    parts.append((f"\n{clean(from_home(row.folder))}", "$text-muted"))
    return Content.assemble(*parts)


def sections(row: PluginRow) -> list[tuple[str, tuple[str, ...], str]]:
    """Return the sections about a plugin: title, lines, colour. Pure."""
    every = (
        ("It brings, and may", row.may, ""),
        (CHANGED, row.changed, "$warning"),
        ("Registered", row.registered, ""),
        ("Printed last", row.printed, "$text-muted"),
    )
    return [each for each in every if each[1]]


def in_full(row: PluginRow) -> str:
    """Return everything known about a plugin, with all changed lines. Outside text. Pure."""
    reason = f"{_capitalize(row.reason)}." if row.reason else ""
    blocks = ["\n".join(filter(None, (f"{row.name} {row.version}".strip(), row.description, reason)))]
    for title, lines, _ in sections(row):
        blocks.append("\n".join([title, *(f"  {each}" for each in lines)]))
        if title == CHANGED and row.difference:
            blocks.append(row.difference)
    return "\n\n".join([*blocks, from_home(row.folder)])
