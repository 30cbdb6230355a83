"""All plugins: which are enabled, what changed in them since their approval, and which skills they add."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent.core.config import trust
from agent.core.config.settings_file import UnreadableSettingsError
from agent.core.home import Home
from agent.integrations.plugins import files, package
from agent.integrations.plugins.consent import AgreedFile, PluginConsent, PluginConsents
from agent.integrations.plugins.files import PluginError, digest, hashes, read_file, walk
from agent.integrations.plugins.package import PluginPackage, read_plugin
from agent.knowledge.skills import catalog
from agent.knowledge.skills.catalog import SkillCatalog
from agent.knowledge.skills.skill import Skill
from tools.files.diffs import diff_texts, shorten_diff
from tools.text.safe_text import reveal
from tools.text.words import brief

if TYPE_CHECKING:
    from agent.core.config.schema import Settings


GROUP = "hermes.plugins"
"""The group of entry points in which an installed package names the package with its plugin."""
MOST_FOLDERS = 200
"""The maximum number of plugins searched for in one folder."""

PluginPlace = Literal["home", "project", "pip"]
PluginStanding = Literal["enabled", "disabled", "changed", "broken", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlugin:
    """A plugin, or a folder that should contain one, and whether it is used."""

    name: str
    folder: Path
    """The folder, with links resolved."""
    place: PluginPlace
    data: Path
    """The folder for its own data, which need not exist."""
    standing: PluginStanding
    reason: str = ""
    """The reason why it is not used, as a clause."""
    plugin: PluginPackage | None = None
    """The content of the plugin; None if it is broken."""
    consent: PluginConsent | None = None
    """The user's approval, even if the files have changed since; None without one."""
    hashes: Mapping[str, str] | None = None
    """The current hash of each file; None if the plugin was never approved."""

    @property
    def is_on(self) -> bool:
        return self.standing == "enabled"

    def difference(self) -> tuple[str, ...]:
        """Return the files that changed since the approval, each with `+`, `-` or `~` in front."""
        if self.consent is None or self.hashes is None:
            return ()
        before, after = self.consent.files, self.hashes
        return tuple(
            f"{'+' if name not in before else '-' if name not in after else '~'} {brief(name, 200)}"
            for name in sorted({*before, *after})
            if before.get(name) != after.get(name)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the data that `hermes plugin list --json` prints for the plugin."""
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
    """Return the path of the folder for a plugin's own data, which updates keep."""
    if place != "project":
        return home.plugin_data / name
    return home.plugin_data / f"{name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"


def installed_entry_points() -> Sequence[EntryPoint]:
    """Return the entry points of installed packages, without importing anything."""
    return tuple(entry_points(group=GROUP))


def find_plugins(
    home: Home, workspace: Path, packages: Callable[[], Sequence[EntryPoint]] = installed_entry_points
) -> tuple[FoundPlugin, ...]:
    """Return all plugins, those of the home folder first.

    Reads the disk, including all files of approved plugins.
    """
    agreed = PluginConsents(home.plugin_consent).read()
    found: list[FoundPlugin] = []
    names: dict[str, Path] = {}
    for folder, place, refused in _folders(home, workspace, packages):
        each = _make_found(home, folder, place, agreed.get(str(folder)), refused)
        if each.plugin is not None and each.name in names:
            reason = f"its name is taken by the plugin in {brief(names[each.name], 300)}"
            each = FoundPlugin(
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


def plugin_service_names(home: Home, workspace: Path, kind: str) -> list[str]:
    """Return the names of the enabled plugins' services of one kind. Reads the disk."""
    return [
        f"{each.name}.{service.name}"
        for each in find_approved_plugins(home, workspace)
        if each.is_on and each.consent is not None
        for service in each.consent.registered.providers
        if service.kind == kind
    ]


def find_approved_plugins(home: Home, workspace: Path) -> tuple[FoundPlugin, ...]:
    """Return the plugins for a session; empty if no plugin is approved.

    Installed packages are searched only if a plugin outside the home folder is approved.
    """
    agreed = [Path(folder) for folder in PluginConsents(home.plugin_consent).read()]
    if not agreed:
        return ()
    own = Path(os.path.realpath(home.plugins))
    # Looking through all installed packages takes longer than anything else here.
    is_elsewhere = any(not folder.is_relative_to(own) for folder in agreed)
    return find_plugins(home, workspace, installed_entry_points if is_elsewhere else tuple)


def _make_found(
    home: Home, folder: Path, place: PluginPlace, consent: PluginConsent | None, refused: str
) -> FoundPlugin:
    name = brief(folder.name)
    if refused:
        data = data_folder(home, "none", folder, place)
        return FoundPlugin(
            name=name, folder=folder, place=place, data=data, standing="refused", reason=refused
        )
    try:
        plugin = read_plugin(folder, data_folder(home, folder.name, folder, place))
        data = data_folder(home, plugin.name, folder, place)
        now = None if consent is None else hashes(plugin.root)
    except PluginError as error:
        data = data_folder(home, "none", folder, place)
        reason = str(error).rstrip(".")
        return FoundPlugin(name=name, folder=folder, place=place, data=data, standing="broken", reason=reason)
    standing: PluginStanding = "enabled"
    reason = ""
    if consent is None:
        standing, reason = "disabled", f"nobody agreed to it; see `hermes plugin enable {plugin.name}`"
    elif consent.digest != digest(now or {}) or consent.name != plugin.name:
        reason = f"its files changed since it was agreed to; see `hermes plugin enable {plugin.name}`"
        standing = "changed"
    return FoundPlugin(
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
    """Yield folder and origin of each plugin, and the reason if it is refused without being read."""
    for path in _below(home.plugins):
        yield path, "home", ""
    root = trust.project_root(workspace)
    folder = root / trust.FOLDER / "plugins"
    if os.path.realpath(folder) != os.path.realpath(home.plugins):
        doubt = _distrust(home, workspace)
        for path in _below(folder):
            outside = "" if path.is_relative_to(root) else "it is outside of the project"
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
    """Return why the project's plugins are not read; empty if its settings are trusted or it has none."""
    try:
        project = trust.read_project(home, workspace)
    except UnreadableSettingsError as error:
        return f"the settings of the project cannot be read ({error})"
    if project is None or trust.is_trusted(home, project):
        return ""
    return "the project is not trusted; see `hermes config trust`"


def folder_of(point: EntryPoint) -> Path | None:
    """Return the folder of an installed plugin; None if its package has no plugin files.

    Nothing is imported.
    """
    if point.dist is None:
        return None
    located = point.dist.locate_file(point.module.replace(".", "/"))
    path = Path(os.path.realpath(str(located)))
    has_plugin = (path / files.FILE).is_file() or (path / package.EXTRAS_FILE).is_file()
    return path if has_plugin else None


MOST_SHOWN = 200_000
"""The maximum number of characters of all differences of a plugin together."""
LONGEST_LINE = 2_000
"""The maximum number of characters of a line that are shown."""
MARKS = {"added": "+", "removed": "-", "changed": "~"}

PluginChange = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginDifference:
    """One file that differs from its approved state. Its texts contain no control sequences."""

    path: str
    change: PluginChange
    facts: tuple[str, ...] = ()
    """Remarks on what the diff does not show, such as that the file is a program now, as clauses."""
    diff: str = ""
    """A unified diff; empty if no text was stored or nothing in it changed."""
    added: int = 0
    removed: int = 0

    @property
    def title(self) -> str:
        """One line with `+`, `-` or `~`, the path, the number of changed lines and further remarks."""
        counts = [f"+{self.added:,}"] * bool(self.added) + [f"-{self.removed:,}"] * bool(self.removed)
        words = [f"{MARKS[self.change]} {self.path}", *([f"({' '.join(counts)})"] if counts else [])]
        return " ".join(words) + "".join(f"; {fact}" for fact in self.facts)

    def to_json(self) -> dict[str, Any]:
        """Return the data that `--json` prints for the file."""
        return {"path": self.path, "change": self.change, "facts": list(self.facts), "diff": self.diff}


def differences(home: Home, shelved: FoundPlugin) -> tuple[PluginDifference, ...]:
    """Return all files that changed since the approval; empty if the plugin was never approved."""
    if shelved.consent is None or shelved.hashes is None or shelved.plugin is None:
        return ()
    before, now = shelved.consent.files, shelved.hashes
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if not changed:
        return ()
    kept = PluginConsents(home.plugin_consent).texts.read(shelved.consent.digest, before)
    found: list[PluginDifference] = []
    room = MOST_SHOWN
    for name in changed:
        found.append(_difference(shelved.plugin.root, name, kept.get(name), before, now, room))
        room -= len(found[-1].diff)
    return tuple(found)


def lines_of(found: Iterable[PluginDifference]) -> list[str]:
    """Return the lines of all differences, file by file."""
    return [line for each in found for line in each.diff.splitlines()]


def _difference(
    root: Path,
    name: str,
    old: AgreedFile | None,
    before: Mapping[str, str],
    now: Mapping[str, str],
    room: int,
) -> PluginDifference:
    change: PluginChange = "added" if name not in before else "removed" if name not in now else "changed"
    shown = brief(reveal(name), 200)
    facts: list[str] = []
    new: AgreedFile | None = None
    if change != "removed":
        try:
            file = read_file(root, root / name)
        except OSError as error:
            facts.append(f"it cannot be read now: {error.strerror or error}")
        else:
            new = AgreedFile.of(file)
            if file.digest != now[name]:
                return PluginDifference(path=shown, change=change, facts=("it is being changed right now",))
    if change != "added" and old is None:
        facts.append("its text was not kept when you agreed")
    facts += _facts(change, old, new)
    sides = ("" if change == "added" else _text(old), "" if change == "removed" else _text(new))
    if None in sides:
        return PluginDifference(path=shown, change=change, facts=tuple(facts))
    text = diff_texts(sides[0] or "", sides[1] or "", *_names(shown, change))
    diff = "\n".join(_short(line) for line in text.text.split("\n"))
    if len(diff) > room:
        diff = shorten_diff(diff, max(room, 0))
    return PluginDifference(
        path=shown, change=change, facts=tuple(facts), diff=diff, added=text.added, removed=text.removed
    )


def _names(shown: str, change: PluginChange) -> tuple[str, str]:
    old = "/dev/null" if change == "added" else f"agreed/{shown}"
    return old, "/dev/null" if change == "removed" else f"now/{shown}"


def _text(file: AgreedFile | None) -> str | None:
    return None if file is None else file.text


def _facts(change: PluginChange, old: AgreedFile | None, new: AgreedFile | None) -> list[str]:
    """Return remarks on a changed file: a changed kind, and sizes and hashes if there are no lines to
    show.
    """
    facts: list[str] = []
    if new is not None and (old is None or old.kind != new.kind) and (kind := _kind(new, change)):
        facts.append(kind)
    for file, when in ((old, "agreed to"), (new, "now")):
        if file is not None and file.text is None:
            facts.append(f"{when}: {file.lacks}, {file.size:,} bytes, SHA-256 {file.sha256}")
    return facts


def _kind(file: AgreedFile, change: PluginChange) -> str:
    kind, _, leads_to = file.kind.partition("\0")
    match kind:
        case "program":
            return "a program" if change == "added" else "it can be run as a program now"
        case "link":
            return f"a link within the plugin, to {brief(reveal(leads_to), 200)}"
        case "outside":
            return "a link out of the plugin, which is not followed"
        case "special":
            return "no plain file, which is not read"
    return "" if change == "added" else "a plain file now"


def _short(line: str) -> str:
    if len(line) > LONGEST_LINE:
        line = f"{line[:LONGEST_LINE]} … {len(line) - LONGEST_LINE:,} more characters"
    return reveal(line)


def skill_folders(shelved: Sequence[FoundPlugin]) -> tuple[Path, ...]:
    """Return the folder of each skill of the enabled plugins. Pure."""
    found: dict[Path, None] = {}
    for each in shelved:
        if each.plugin is None or each.consent is None or not each.is_on:
            continue
        found |= dict.fromkeys(skill.folder for skill in each.plugin.skills)
        found |= dict.fromkeys(each.plugin.root / path for path in each.consent.registered.skills)
    return tuple(found)


def skill_catalog(
    home: Home, workspace: Path, settings: Settings, folders: Sequence[Path] | None = None
) -> SkillCatalog:
    """Return the skills of a workspace.

    `folders` are those of plugins; if it is None, they are looked up on disk.
    """
    found = skill_folders(find_approved_plugins(home, workspace)) if folders is None else tuple(folders)
    plain = catalog.skill_catalog(home, workspace, settings)
    if not found:
        return plain
    return replace(plain, plugins=found, doubts=(*plain.doubts, PluginSkillDoubts(home).doubt))


def catalog_for(
    home: Home, workspace: Path, settings: Settings, folders: Sequence[Path] | None = None
) -> SkillCatalog | None:
    """Return the skills of a session; None if skills are switched off."""
    return skill_catalog(home, workspace, settings, folders) if settings.skills.enabled else None


class PluginSkillDoubts:
    """A check of whether a plugin's skill may be used. File hashes are cached until a file changes."""

    def __init__(self, home: Home) -> None:
        self._consents = PluginConsents(home.plugin_consent)
        self._known: dict[Path, tuple[object, dict[str, str]]] = {}

    def doubt(self, skill: Skill) -> str:
        """Return why a plugin's skill must not be used, as a clause; empty if it may. Reads the disk."""
        if skill.scope != "plugin":
            return ""
        for folder, consent in self._consents.read().items():
            if not skill.folder.is_relative_to(folder):
                continue
            begin = skill.folder.relative_to(folder).as_posix() + "/"
            agreed = {name: each for name, each in consent.files.items() if name.startswith(begin)}
            try:
                if self._hashes(Path(folder), skill.folder) == agreed:
                    return ""
            except (PluginError, OSError):
                continue
        return "its files changed since you agreed to the plugin; see `hermes plugin list`"

    def _hashes(self, root: Path, folder: Path) -> dict[str, str]:
        stamp = tuple(
            (path, (status := path.lstat()).st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            for path in walk(folder)
        )
        known = self._known.get(folder)
        if known is None or known[0] != stamp:
            known = self._known[folder] = (stamp, hashes(root, folder))
        return known[1]
