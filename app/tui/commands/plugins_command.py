"""The command that shows the installed plugins."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from app.tui.commands.registry import AppCommand

if TYPE_CHECKING:
    from agent.core.home import Home
    from agent.integrations.plugins.installing import PluginEnvironment
    from agent.integrations.plugins.process import PluginFailure
    from agent.integrations.plugins.registrations import RegisteredProvider
    from agent.integrations.plugins.shelf import ShelvedPlugin
    from app.tui.app_context import AppContext
    from app.tui.screens.plugins import AgreeTo, PluginRow


LAST = 5
"""Number of output lines of a plugin that are shown."""
LOG_END = 4_000
"""Bytes at the end of the log that are read for them."""


@dataclass(frozen=True, slots=True)
class DiskPlugins:
    """The plugins of a workspace on disk, and the state of their code in the open session."""

    home: Home
    workspace: Path
    failures: Mapping[str, PluginFailure] = field(default_factory=dict)
    """Failures in the session, by plugin."""

    def load(self) -> Sequence[PluginRow]:
        from agent.integrations.plugins.shelf import find

        around = self._environment()
        return [self._row(each, around) for each in find(self.home, self.workspace)]

    async def enable(self, row: PluginRow, agree_to: AgreeTo) -> str:
        from agent.integrations.plugins.files import PluginError
        from agent.integrations.plugins.installing import Agreement, enable, taken_names
        from agent.integrations.plugins.shelf import find

        def find_shelved() -> tuple[ShelvedPlugin | None, PluginEnvironment, frozenset[str]]:
            shelved = next((it for it in find(self.home, self.workspace) if it.folder == row.folder), None)
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

    def _environment(self) -> PluginEnvironment:
        from agent.core.config.loader import load
        from agent.integrations.plugins.installing import PluginEnvironment

        loaded = load(self.home, dict(os.environ), self.workspace)
        return PluginEnvironment.of(self.home, self.workspace, loaded.environ, loaded.settings.sandbox.mode)

    def _row(self, each: ShelvedPlugin, around: PluginEnvironment) -> PluginRow:
        from agent.integrations.plugins.installing import card
        from agent.integrations.plugins.shelf import differences, lines_of
        from app.tui.screens.plugins import PluginRow

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


def _files_hash(each: ShelvedPlugin) -> str:
    """Return one hash of all files of a plugin; empty if they cannot be read. Reads all of them."""
    from agent.integrations.plugins.files import PluginError, digest, hashes

    if each.plugin is None:
        return ""
    try:
        return digest(each.hashes if each.hashes is not None else hashes(each.plugin.root))
    except PluginError:
        return ""


def failure_text(failure: PluginFailure | None) -> str:
    """Return the sentences about a failure. Pure."""
    if failure is None:
        return ""
    often = f" It failed {failure.times} times in this session." if failure.times > 1 else ""
    return f"{failure.what}{often}{' It is off until the next one.' if failure.is_off else ''}"


async def _plugins(app: AppContext, _argument: str) -> None:
    from agent.core.home import Home
    from app.tui.screens.plugins import PluginsScreen

    home = await asyncio.to_thread(Home.locate)
    client = app.need_client()
    failures = {each.plugin: each for each in await client.plugins.failures()}
    await app.push_screen_wait(PluginsScreen(DiskPlugins(home, client.workspace, failures)))


COMMAND = AppCommand(
    id="program.plugins",
    group="Program",
    name="Plugins",
    description="What plugins there are: what they bring and may do, enable and disable them.",
    action=_plugins,
    slash="plugins",
)
