"""The screen of plugins: their contents, permissions and problems; enabling and disabling them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.content import Content

from agent.core.home import Home, from_home
from agent.errors import HermesError
from app.tui.screens.dialog import ChangeDialog, ConfirmDialog, DetailScreen, difference_parts
from app.tui.screens.entry_page import EntryForm, EntryPage, EntryRows, FormLine, change, change_entry, load
from app.tui.screens.page import line
from themes.states import state_of
from tools.text.safe_text import clean
from tools.text.words import plural
from widgets.rows.row_text import one_line, spread

if TYPE_CHECKING:
    from agent.integrations.plugins.installing import PluginEnvironment
    from agent.integrations.plugins.process import PluginFailure
    from agent.integrations.plugins.registrations import RegisteredProvider
    from agent.integrations.plugins.shelf import FoundPlugin

MOST_ASKED = 10
"""The number of permissions that the question repeats; the details show all of them."""
LAST = 5
"""The number of a plugin's last output lines that are shown."""
LOG_END = 4_000
"""The number of bytes at the end of the log that are read for them."""
CHANGED = "Changed since you agreed"
LATER = "from the next session on"
ABOUT_NEW = "The folder of a plugin, which is copied, or the name of an installed package that brings one."

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
    """The reason why the plugin is not used."""
    may: tuple[str, ...] = ()
    """Contents, permissions and unused parts of the plugin, a line each."""
    changed: tuple[str, ...] = ()
    """Files changed since the user approved the plugin, with `+`, `-` or `~` in front."""
    difference: str = ""
    """The changed lines of these files, as unified diffs."""
    seen: str = ""
    """A hash of all files as they are shown here."""
    registered: tuple[str, ...] = ()
    """What the plugin's code registered when the user approved it, a line each."""
    printed: tuple[str, ...] = ()
    """The last lines that the plugin's code printed."""
    failed: str = ""
    """Failures of the plugin's code in this session, as sentences."""
    needs: str = ""
    """A sentence about further approvals needed on the command line; empty if there are none."""


AgreeTo = Callable[[Sequence[str]], Awaitable[bool]]
"""Asks the user to approve services, given a sentence for each; returns the answer."""


@dataclass(frozen=True, slots=True)
class DiskPlugins:
    """The plugins of a workspace on disk, and the state of their code in the open session."""

    home: Home
    workspace: Path
    failures: Mapping[str, PluginFailure] = field(default_factory=dict)
    """Failures of plugins in the session, by plugin name."""

    def load(self) -> Sequence[PluginRow]:
        from agent.integrations.plugins.shelf import find_plugins

        around = self._environment()
        return [self._row(each, around) for each in find_plugins(self.home, self.workspace)]

    def add(self, source: str) -> str:
        """Copy the plugin in a folder into the home, or find an installed one; return its name.

        It is not used before the user approves it. Raises `PluginError`.
        """
        from agent.integrations.plugins.files import PluginError
        from agent.integrations.plugins.installing import put_in_place, stage_copy
        from agent.integrations.plugins.shelf import find_plugins

        names = {each.name: each for each in find_plugins(self.home, self.workspace)}
        folder = self.workspace / Path(source).expanduser()
        if not folder.is_dir():
            if source in names:
                return source
            raise PluginError(
                f"There is neither a folder {source!r} nor an installed package that brings such a plugin."
            )
        with stage_copy(self.home, folder) as plugin:
            if plugin.name in names:
                where = from_home(names[plugin.name].folder)
                raise PluginError(f"There is a plugin {plugin.name} already, in {where}.")
            put_in_place(self.home, plugin)
            return plugin.name

    async def enable(self, row: PluginRow, agree_to: AgreeTo) -> str:
        """Approve a plugin's current files; return a sentence about the result. Raises `HermesError`.

        `agree_to` asks about the services of the plugin, which are known only once its code is loaded.
        """
        from agent.integrations.plugins.files import PluginError
        from agent.integrations.plugins.installing import Agreement, enable, taken_names
        from agent.integrations.plugins.shelf import find_plugins

        def find_shelved() -> tuple[FoundPlugin | None, PluginEnvironment, frozenset[str]]:
            shelved = next(
                (it for it in find_plugins(self.home, self.workspace) if it.folder == row.folder), None
            )
            if shelved is not None and _files_hash(shelved) != row.seen:
                raise PluginError(f"The files of {row.name} changed again; look at what changed, then agree.")
            return shelved, self._environment(), taken_names(self.home, self.workspace, row.folder)

        shelved, around, taken = await asyncio.to_thread(find_shelved)
        if shelved is None:
            raise PluginError(f"The plugin {row.name} is gone.")

        async def agree(services: Sequence[RegisteredProvider]) -> bool:
            return await agree_to([each.sentence for each in services])

        registered = await enable(shelved, around, Agreement(), taken, agree)
        wrong = "".join(f" Not used: {each.part}, as {each.reason}." for each in registered.skipped)
        return f"{row.name} is enabled from the next session on.{wrong}"

    def disable(self, row: PluginRow) -> None:
        from agent.integrations.plugins.installing import withdraw

        withdraw(self.home, row.folder)

    def delete(self, row: PluginRow) -> None:
        """Remove the files of a plugin in the home, but not its stored data. Raises `PluginError`."""
        from agent.integrations.plugins.installing import uninstall
        from agent.integrations.plugins.shelf import find_plugins

        for each in find_plugins(self.home, self.workspace):
            if each.folder == row.folder:
                uninstall(self.home, each, keep_data=True)

    def _environment(self) -> PluginEnvironment:
        from agent.core.config.loader import load
        from agent.integrations.plugins.installing import PluginEnvironment

        loaded = load(self.home, dict(os.environ), self.workspace)
        return PluginEnvironment.of(self.home, self.workspace, loaded.environ, loaded.settings.sandbox.mode)

    def _row(self, each: FoundPlugin, around: PluginEnvironment) -> PluginRow:
        from agent.integrations.plugins.installing import card
        from agent.integrations.plugins.shelf import differences, lines_of

        plugin = each.plugin
        usable = plugin is not None and each.standing != "refused"
        lines = [text.strip() for text in card(each, around)] if usable else []
        # Name, folder and description are shown elsewhere.
        may = lines[1:]
        changed = differences(self.home, each) if usable else ()
        if plugin is not None and plugin.description and may and plugin.description.startswith(may[0][:40]):
            may = may[1:]
        registered: list[str] = []
        if each.is_on and each.consent is not None:
            kept = each.consent.registered
            registered = [f"{title}: {', '.join(names)}" for title, names in kept.titles()]
            registered += [f"not used: {part.part}: {part.reason}" for part in kept.skipped]
        needs = ""
        if plugin is not None and plugin.runs and around.sandbox.name == "none":
            needs = f"nothing confines its code on this machine; see `hermes plugin enable {each.name}`"
        return PluginRow(
            name=each.name,
            version=(plugin.version or "") if plugin is not None else "",
            place=each.place,
            description=(plugin.description or "") if plugin is not None else "",
            state=each.standing,
            folder=each.folder,
            reason=each.reason.partition("; see `hermes plugin enable")[0],
            may=tuple(may),
            changed=tuple(one.title for one in changed) or each.difference(),
            difference="\n".join(lines_of(changed)),
            seen=_files_hash(each) if usable else "",
            registered=tuple(registered),
            printed=self._log_lines(each.name),
            failed=failure_text(self.failures.get(each.name)) if each.is_on else "",
            needs=needs,
        )

    def _log_lines(self, name: str) -> tuple[str, ...]:
        try:
            with (self.home.logs / "plugins" / f"{name}.log").open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - LOG_END, 0))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ()
        return tuple(text.splitlines()[-LAST:])


def _files_hash(each: FoundPlugin) -> str:
    """Return one hash of all files of a plugin, all of which are read; empty if they cannot be read."""
    from agent.integrations.plugins.files import PluginError, digest, hashes

    if each.plugin is None:
        return ""
    try:
        return digest(each.hashes if each.hashes is not None else hashes(each.plugin.root))
    except PluginError:
        return ""


def failure_text(failure: PluginFailure | None) -> str:
    """Return a failure as sentences; empty if there is none. Pure."""
    if failure is None:
        return ""
    often = f" It failed {failure.times} times in this session." if failure.times > 1 else ""
    return f"{failure.what}{often}{' It is off until the next one.' if failure.is_off else ''}"


class PluginsScreen(EntryPage[None, PluginRow]):
    """The list of plugins. Changes take effect with the next session."""

    heading = "Plugins"
    keys = "⏎ in full · n new · t trust and use · d delete · u undo · ? keys · esc back"
    ways_on = "n new"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "add", "Add a plugin", id="plugins.add"),
        Binding("t", "enable", "Agree to the plugin as its files are now", id="plugins.enable"),
        Binding("p", "disable", "Stop using the plugin", id="plugins.disable"),
        Binding("u", "undo", "Bring back the plugin deleted last", id="plugins.undo"),
        Binding("d", "remove", "Delete the plugin's files, when this list is left", id="plugins.remove"),
    ]

    def __init__(self, plugins: DiskPlugins) -> None:
        super().__init__(PluginRows())
        self._plugins = plugins
        self._deleted: dict[Path, PluginRow] = {}
        """Plugins that are deleted when the list is left, by their folders."""

    def about(self, entry: PluginRow) -> Content:
        return about(entry)

    def on_mount(self) -> None:
        self._load()

    def open_entry(self, entry: PluginRow) -> None:
        self.app.push_screen(DetailScreen(f"Plugin {entry.name}", in_full(entry), spelled=True, diffs=True))

    @load
    async def _load(self, at: str = "") -> None:
        found = await asyncio.to_thread(self._plugins.load)
        rows = [row for row in found if row.folder not in self._deleted]
        used = sum(row.state == "enabled" for row in rows)
        self.list_entries(rows, f"{used} used · {len(rows) - used} not" if rows else "", at)

    @change
    async def action_add(self) -> None:
        async def add(typed: Mapping[str, str]) -> str:
            return await asyncio.to_thread(self._plugins.add, typed["source"])

        lines = [FormLine("source", "~/plugins/house-style")]
        if name := await self.app.push_screen_wait(EntryForm("A new plugin", ABOUT_NEW, lines, add)):
            self._load(name)
            self.notify(f"{line(name)} is here; t shows what it may do, and uses it.", markup=False)

    @change_entry
    async def action_enable(self, row: PluginRow) -> None:
        if row.state == "enabled":
            return
        if row.state in ("broken", "refused") or row.needs:
            why = row.needs or row.reason
            self.show_problem(f"{row.name} cannot be enabled here: {why}.", "warning")
            return
        if not await self.app.push_screen_wait(ChangeDialog(question(row), row.difference, "Enable")):
            return
        said = await self._plugins.enable(row, partial(self._agree_to, row))
        self.notify(line(said), markup=False)
        self._load(row.name)

    async def _agree_to(self, row: PluginRow, services: Sequence[str]) -> bool:
        text = "\n".join(map(clean, [f"Use the services of {row.name}?", "", *services]))
        return bool(await self.app.push_screen_wait(ConfirmDialog(text, "Use them", "Do without")))

    @change_entry
    async def action_disable(self, row: PluginRow) -> None:
        if row.state in ("enabled", "changed"):
            await asyncio.to_thread(self._plugins.disable, row)
            self.notify(line(f"{row.name} is not used {LATER}."), markup=False)
            self._load(row.name)

    @change_entry
    async def action_remove(self, row: PluginRow) -> None:
        if row.place != "home":
            self.show_problem(f"{row.name} comes with the {row.place}; p uses it no longer.", "warning")
            return

        async def undo() -> None:
            del self._deleted[row.folder]
            self._load(row.name)

        self._deleted[row.folder] = row
        self.undo.append(undo)
        self._load()
        self.notify(f"{line(row.name)} is deleted when this list is left; u brings it back.", markup=False)

    async def on_unmount(self) -> None:
        """Delete the plugins that were marked for deletion."""
        for row in self._deleted.values():
            try:
                await asyncio.to_thread(self._plugins.delete, row)
            except HermesError as error:
                self.app.notify(line(str(error)), severity="error", markup=False)


class PluginRows(EntryRows[PluginRow]):
    """One row per plugin: state, name, description, folder."""

    def __init__(self) -> None:
        super().__init__(
            key=lambda row: row.name,
            words=lambda row: f"{row.name} {row.description}",
            empty="Plugins stand here: they bring tools, commands, skills or hooks. Press n to add one.",
        )

    def draw_entry(self, entry: PluginRow, width: int) -> list[Text]:
        mark, ink, *_ = state_of("failed" if entry.failed else entry.state)
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
        lines.append(f"… and {plural(len(row.may) - MOST_ASKED, 'more line')} beside the list")
    if row.changed:
        lines += ["", "Changed since you agreed:", *row.changed[:MOST_ASKED]]
        if len(row.changed) > MOST_ASKED:
            lines.append(f"… and {plural(len(row.changed) - MOST_ASKED, 'more file')} beside the list")
    return "\n".join(map(clean, lines))


def _capitalize(reason: str) -> str:
    """Capitalize the first letter of a clause, unless its first word contains a dot, as file names do."""
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
    """Return the nonempty sections of the details of a plugin: title, lines, colour. Pure."""
    every = (
        ("It brings, and may", row.may, ""),
        (CHANGED, row.changed, "$warning"),
        ("Registered", row.registered, ""),
        ("Printed last", row.printed, "$text-muted"),
    )
    return [each for each in every if each[1]]


def in_full(row: PluginRow) -> str:
    """Return everything known about a plugin, with all changed lines. Its parts are outside text. Pure."""
    reason = f"{_capitalize(row.reason)}." if row.reason else ""
    blocks = ["\n".join(filter(None, (f"{row.name} {row.version}".strip(), row.description, reason)))]
    for title, lines, _ in sections(row):
        blocks.append("\n".join([title, *(f"  {each}" for each in lines)]))
        if title == CHANGED and row.difference:
            blocks.append(row.difference)
    return "\n\n".join([*blocks, from_home(row.folder)])
