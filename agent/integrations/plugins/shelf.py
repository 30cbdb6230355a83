"""The plugins there are: in the home, in a trusted project, installed by pip; and which of them are on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

from agent.core.config import trust
from agent.core.config.settings_file import UnreadableSettingsError
from agent.core.home import Home
from agent.integrations.plugins import extras, manifest
from agent.integrations.plugins.consent import ConsentFile, PluginConsent
from agent.integrations.plugins.files import digest, hashes
from agent.integrations.plugins.package import PluginPackage, read_plugin
from agent.integrations.plugins.problem import PluginError
from tools.text.words import brief

GROUP = "hermes.plugins"
"""The group of entry points by which an installed package names its plugin, a package of its own."""
MOST_FOLDERS = 200
"""Plugins of one place that are looked at."""

PluginPlace = Literal["home", "project", "pip"]
PluginStanding = Literal["enabled", "disabled", "changed", "broken", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelvedPlugin:
    """A plugin, or a folder that wants to be one, and whether it is used."""

    name: str
    folder: Path
    """Without links."""
    place: PluginPlace
    data: Path
    """Where it keeps what is its own; need not exist."""
    standing: PluginStanding
    reason: str = ""
    """Why it is not used, as a clause."""
    plugin: PluginPackage | None = None
    """None for a broken one."""
    consent: PluginConsent | None = None
    """What the person agreed to, be it that the files changed since."""
    hashes: Mapping[str, str] | None = None
    """What stands for each file now; None where nobody agreed to any."""

    @property
    def is_on(self) -> bool:
        return self.standing == "enabled"

    def difference(self) -> tuple[str, ...]:
        """Files that changed since the person agreed, with `+`, `-` or `~` before each."""
        if self.consent is None or self.hashes is None:
            return ()
        before, after = self.consent.files, self.hashes
        return tuple(
            f"{'+' if name not in before else '-' if name not in after else '~'} {brief(name, 200)}"
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        )

    def to_json(self) -> dict[str, Any]:
        """What `hermes plugin list --json` shows of it."""
        registered = self.consent.registered.to_json() if self.consent is not None and self.is_on else None
        return {
            "name": self.name,
            "place": self.place,
            "path": str(self.folder),
            "standing": self.standing,
            "reason": self.reason,
            "changed": list(self.difference()),
            "plugin": None if self.plugin is None else self.plugin.to_json(),
            "registered": registered,
        }


def data_folder(home: Home, name: str, folder: Path, place: PluginPlace) -> Path:
    """Where a plugin keeps what is its own; it outlives updates."""
    if place != "project":
        return home.plugin_data / name
    return home.plugin_data / f"{name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"


def installed() -> Sequence[EntryPoint]:
    """The entry points of installed packages. Nothing is imported."""
    return tuple(entry_points(group=GROUP))


def find(
    home: Home, workspace: Path, packages: Callable[[], Sequence[EntryPoint]] = installed
) -> tuple[ShelvedPlugin, ...]:
    """All plugins, those of the home first. Reads the disk, also every byte of what was agreed to."""
    agreed = ConsentFile(home.plugin_consent).read()
    found: list[ShelvedPlugin] = []
    names: dict[str, Path] = {}
    for folder, place, refused in _folders(home, workspace, packages):
        each = _shelved(home, folder, place, agreed.get(str(folder)), refused)
        if each.plugin is not None and each.name in names:
            reason = f"its name is taken by the plugin in {brief(names[each.name], 300)}"
            each = ShelvedPlugin(
                name=each.name,
                folder=folder,
                place=place,
                data=each.data,
                standing="refused",
                reason=reason,
                plugin=each.plugin,
            )
        elif each.plugin is not None:
            names[each.name] = folder
        found.append(each)
    return tuple(found)


def find_agreed(home: Home, workspace: Path) -> tuple[ShelvedPlugin, ...]:
    """The same for a session: none where nobody agreed to any, and others only where they may matter."""
    agreed = [Path(folder) for folder in ConsentFile(home.plugin_consent).read()]
    if not agreed:
        return ()
    own = Path(os.path.realpath(home.plugins))
    # Looking through all installed packages takes longer than anything else here.
    is_elsewhere = any(not folder.is_relative_to(own) for folder in agreed)
    return find(home, workspace, installed if is_elsewhere else tuple)


def _shelved(
    home: Home, folder: Path, place: PluginPlace, consent: PluginConsent | None, refused: str
) -> ShelvedPlugin:
    name = brief(folder.name)
    if refused:
        data = data_folder(home, "none", folder, place)
        return ShelvedPlugin(
            name=name, folder=folder, place=place, data=data, standing="refused", reason=refused
        )
    try:
        plugin = read_plugin(folder, data_folder(home, folder.name, folder, place))
        data = data_folder(home, plugin.name, folder, place)
        now = None if consent is None else hashes(plugin.root)
    except PluginError as error:
        data = data_folder(home, "none", folder, place)
        reason = str(error).rstrip(".")
        return ShelvedPlugin(
            name=name, folder=folder, place=place, data=data, standing="broken", reason=reason
        )
    standing: PluginStanding = "enabled"
    reason = ""
    if consent is None:
        standing, reason = "disabled", f"nobody agreed to it; see `hermes plugin enable {plugin.name}`"
    elif consent.digest != digest(now or {}) or consent.name != plugin.name:
        reason = f"its files changed since it was agreed to; see `hermes plugin enable {plugin.name}`"
        standing = "changed"
    return ShelvedPlugin(
        name=plugin.name,
        folder=folder,
        place=place,
        data=data,
        standing=standing,
        reason=reason,
        plugin=plugin,
        consent=consent,
        hashes=now,
    )


def _folders(
    home: Home, workspace: Path, packages: Callable[[], Sequence[EntryPoint]]
) -> Iterator[tuple[Path, PluginPlace, str]]:
    """Folders of plugins, and why one is refused at once."""
    for path in _below(home.plugins):
        yield path, "home", ""
    root = trust.project_root(workspace)
    folder = root / trust.FOLDER / "plugins"
    if os.path.realpath(folder) != os.path.realpath(home.plugins):
        doubt = _distrust(home, workspace)
        for path in _below(folder):
            outside = "" if path.is_relative_to(root) else "it lies outside of the project"
            yield path, "project", outside or doubt
    for point in packages():
        if (path := folder_of(point)) is not None:
            yield path, "pip", ""


def _below(folder: Path) -> Iterator[Path]:
    try:
        names = sorted(each.name for each in os.scandir(folder) if not each.name.startswith("."))
    except OSError:
        return
    for name in names[:MOST_FOLDERS]:
        path = Path(os.path.realpath(folder / name))
        if path.is_dir():
            yield path


def _distrust(home: Home, workspace: Path) -> str:
    """Why plugins of the project are not looked at; empty where its settings are trusted or it has none."""
    try:
        project = trust.read_project(home, workspace)
    except UnreadableSettingsError as error:
        return f"the settings of the project cannot be read ({error})"
    if project is None or trust.is_trusted(home, project):
        return ""
    return "the project is not trusted; see `hermes config trust`"


def folder_of(point: EntryPoint) -> Path | None:
    """The folder of an installed plugin; None where its package is no folder. Nothing is imported."""
    if point.dist is None:
        return None
    located = point.dist.locate_file(point.module.replace(".", "/"))
    path = Path(os.path.realpath(str(located)))
    has_plugin = (path / manifest.FILE).is_file() or (path / extras.FILE).is_file()
    return path if has_plugin else None
