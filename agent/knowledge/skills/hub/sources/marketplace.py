"""Marketplaces of Claude Code: repositories with a list of plugins that contain skills."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from agent.knowledge.skills.hub.bundle import (
    SKILL_FILES,
    STRICT,
    FetchedSkill,
    HubError,
    HubMissingError,
    HubRefusedError,
    Limits,
    SkillOffer,
    matches,
    safe_path,
)
from agent.knowledge.skills.hub.git import (
    FileTree,
    TreeEntry,
    TreeSkill,
    bundle,
    described,
    head_of,
    pick,
    skills_in,
    subfolder,
)
from agent.knowledge.skills.hub.http import HubHttp, HubSession, origin
from tools.text.words import brief

CATALOG = ".claude-plugin/marketplace.json"
_MANIFEST = ".claude-plugin/plugin.json"
_LARGEST = 2_000_000
_MOST_PLUGINS = 1_000
_GITHUB = re.compile(r"[A-Za-z0-9][\w-]*/[\w.-]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class PluginPlace:
    """The location of a plugin: the marketplace, or another repository."""

    folder: str = ""
    repository: str = ""
    """`owner/repository` on GitHub, or the address of a git repository; empty for the marketplace itself."""
    ref: str = ""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry of a marketplace."""

    name: str
    description: str
    version: str
    place: PluginPlace | None
    """Its location; None if it cannot be fetched here."""
    skills: tuple[str, ...] = ()
    """Folders below the plugin that the entry names."""


@dataclass(frozen=True, slots=True)
class OpenTree:
    """An open tree of files, and the owner of its repository."""

    tree: FileTree
    address: str
    repository: str = ""


TreeOpener = Callable[[str, str], AbstractContextManager[OpenTree]]
"""A function that opens `owner/repository` or a git address at a revision (empty: the default one)."""


def parse_catalog(content: bytes) -> tuple[Plugin, ...]:
    """Parse the plugins of a marketplace. Raises `HubError` for any other file."""
    data = _json(content, "The marketplace")
    listed = data.get("plugins")
    if not isinstance(listed, list):
        raise HubError("The marketplace has no list of plugins.")
    metadata = data.get("metadata")
    root = metadata.get("pluginRoot", "") if isinstance(metadata, Mapping) else ""
    plugins = (_plugin(each, root) for each in listed[:_MOST_PLUGINS] if isinstance(each, Mapping))
    return tuple(plugin for plugin in plugins if plugin is not None)


def _json(content: bytes, what: str) -> Mapping[str, Any]:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise HubError(f"{what} is not JSON.") from None
    if not isinstance(data, Mapping):
        raise HubError(f"{what} is not a JSON object.")
    return data


def _plugin(record: Mapping[str, Any], root: object) -> Plugin | None:
    name = record.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    description, version = record.get("description", ""), record.get("version", "")
    return Plugin(
        name,
        brief(description, 1_024) if isinstance(description, str) else "",
        brief(version) if isinstance(version, str) else "",
        _plugin_place(record.get("source"), root),
        _folders(record.get("skills")),
    )


def _plugin_place(source: object, root: object) -> PluginPlace | None:
    if isinstance(source, str):
        inner = subfolder(source, "The source of a plugin")
        base = subfolder(root, "pluginRoot") if root else ""
        return PluginPlace("/".join(part for part in (base, inner) if part))
    if not isinstance(source, Mapping):
        return None
    ref = next((source[key] for key in ("sha", "ref") if isinstance(source.get(key), str)), "")
    folder = subfolder(source.get("path", ""), "The path of a plugin")
    match source.get("source"):
        case "github":
            repository = source.get("repo")
        case "url" | "git" | "git-subdir":
            repository = source.get("url")
        case _:
            return None
    return PluginPlace(folder, repository, ref) if isinstance(repository, str) and repository else None


def _folders(value: object) -> tuple[str, ...]:
    """Return folders of skills from a field that holds one path or a list. Raises `HubError`."""
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(subfolder(each, "A folder of skills") for each in listed if isinstance(each, str))


@dataclass(frozen=True, slots=True)
class MarketplaceSource:
    """The skills of all plugins of one marketplace; each is named `PLUGIN/SKILL`."""

    name: str
    address: str
    """`owner/repository`, a git address, or a folder, as `opener` accepts it."""
    opener: TreeOpener

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Return matching skills in the marketplace. A plugin in another repository is one result."""
        with self.opener(self.address, "") as opened:
            found: list[tuple[int, SkillOffer]] = []
            for plugin in self._plugins(opened.tree):
                found += self._matching_offers(query, plugin, opened)
        ranked = sorted((each for each in found if each[0]), key=lambda each: (-each[0], each[1].item))
        return tuple(offer for _, offer in ranked[:limit])

    def _matching_offers(self, query: str, plugin: Plugin, opened: OpenTree) -> list[tuple[int, SkillOffer]]:
        if plugin.place is None:
            return []
        if plugin.place.repository:
            offer = SkillOffer(
                self.name,
                "marketplace",
                plugin.name,
                plugin.name,
                plugin.description,
                plugin.version,
                self.address,
                notes=(f"a plugin in {brief(plugin.place.repository)}",),
            )
            return [(matches(query, plugin.name, plugin.description), offer)]
        skills = _skills(opened.tree, plugin)
        return [
            (
                matches(query, name, description, plugin.name, plugin.description),
                self._offer(plugin, skill, opened, name, description),
            )
            for skill, name, description in described(opened.tree, skills, STRICT.each)
        ]

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """Return the description of one skill."""
        with self._open_plugin(item, version) as (opened, plugin, skill):
            content = opened.tree.read([skill.file], STRICT.each)[skill.file.path]
            return self._offer(plugin, skill, opened, *head_of(content, skill.folder))

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Return the files of one skill."""
        with self._open_plugin(item, version) as (opened, plugin, skill):
            files = bundle(opened.tree, skill.folder, limits)
            content = next(file.content for file in files if file.path in SKILL_FILES)
            offer = self._offer(plugin, skill, opened, *head_of(content, skill.folder))
            return FetchedSkill(offer, files)

    @contextmanager
    def _open_plugin(self, item: str, version: str) -> Iterator[tuple[OpenTree, Plugin, TreeSkill]]:
        name, _, wanted = item.partition("/")
        with self.opener(self.address, "") as home:
            plugins = self._plugins(home.tree)
            plugin = next((each for each in plugins if each.name == name), None)
            if plugin is None:
                names = ", ".join(each.name for each in plugins[:12]) or "none"
                raise HubMissingError(f"{brief(self.address)} has no plugin {brief(name)!r}; it has {names}.")
            if plugin.place is None:
                raise HubRefusedError(f"The plugin {name} is delivered in a way that is not taken here.")
            if not plugin.place.repository:
                if version and version != home.tree.revision:
                    with self.opener(self.address, version) as older:
                        yield older, plugin, self._pick_skill(older, plugin, wanted)
                    return
                yield home, plugin, self._pick_skill(home, plugin, wanted)
                return
        _check_elsewhere(plugin.place.repository, self.address)
        with self.opener(plugin.place.repository, version or plugin.place.ref) as other:
            yield other, plugin, self._pick_skill(other, plugin, wanted)

    def _pick_skill(self, opened: OpenTree, plugin: Plugin, wanted: str) -> TreeSkill:
        return pick(_skills(opened.tree, plugin), wanted, f"{self.address}, plugin {plugin.name}")

    def _plugins(self, tree: FileTree) -> tuple[Plugin, ...]:
        entry = next((each for each in tree.entries if each.path == CATALOG and each.kind == "file"), None)
        if entry is None or entry.size > _LARGEST:
            raise HubMissingError(f"{brief(self.address)} is not a marketplace: it has no usable {CATALOG}.")
        return parse_catalog(tree.read([entry], _LARGEST)[CATALOG])

    def _offer(
        self, plugin: Plugin, skill: TreeSkill, opened: OpenTree, name: str, description: str
    ) -> SkillOffer:
        folder = PurePosixPath(skill.folder).name
        return SkillOffer(
            source=self.name,
            kind="marketplace",
            item=f"{plugin.name}/{folder}" if folder else plugin.name,
            name=name or folder or plugin.name,
            description=description or plugin.description,
            version=opened.tree.revision,
            address=opened.address,
            origin=f"{opened.repository}/{skill.folder}".rstrip("/") if opened.repository else "",
        )


def _check_elsewhere(repository: str, home: str) -> None:
    """Raise `HubRefusedError` unless a repository is on GitHub, has an https address or the marketplace's
    host.

    The document that names it comes from outside.
    """
    if _GITHUB.fullmatch(repository) or repository.startswith("https://"):
        return
    if "://" in home and repository.startswith("http://") and origin(repository) == origin(home):
        return
    raise HubRefusedError(
        f"A plugin is at {brief(repository, 160)!r}, and only https addresses are followed from there."
    )


def _skills(tree: FileTree, plugin: Plugin) -> tuple[TreeSkill, ...]:
    """Return the skills of a plugin: in the folders it names, otherwise below `skills` and in its root."""
    assert plugin.place is not None
    root = plugin.place.folder
    named = plugin.skills or _manifest_skills(tree, root)
    below = [joined(root, folder) for folder in named]
    found = [skill for folder in dict.fromkeys(below) for skill in skills_in(tree.entries, folder)]
    if not named or not found:
        found = list(skills_in(tree.entries, joined(root, "skills")))
        found += [skill for skill in skills_in(tree.entries, root) if skill.folder == root]
    return tuple(dict.fromkeys(found))


def _manifest_skills(tree: FileTree, root: str) -> tuple[str, ...]:
    path = joined(root, _MANIFEST)
    entry = next((each for each in tree.entries if each.path == path and each.kind == "file"), None)
    if entry is None or entry.size > _LARGEST:
        return ()
    return _folders(_json(tree.read([entry], _LARGEST)[path], "plugin.json").get("skills"))


def joined(root: str, folder: str) -> str:
    """Join two relative folders; each may be empty."""
    return "/".join(part for part in (root, folder) if part)


_MOST_SKILLS = 100
_LINK = re.compile(r"\]\(\s*<?([^)\s>#?]+)")
_NAMED = re.compile(r"\b((?:scripts|references|assets|templates)/[\w./-]*\w)")


@dataclass(frozen=True)
class SiteTree:
    """The files of a marketplace on a plain web server: catalog, SKILL.md files, and the files they
    mention.
    """

    http: HubHttp
    root: str
    """The address of the folder that holds `.claude-plugin`."""
    catalog: bytes

    @property
    def revision(self) -> str:
        """An empty text: a file server has no revision."""
        return ""

    @property
    def entries(self) -> tuple[TreeEntry, ...]:
        """All files found."""
        return tuple(TreeEntry(path, "file", len(content)) for path, content in self._files.items())

    def read(self, wanted: Sequence[TreeEntry], limit: int) -> Mapping[str, bytes]:
        """Return the contents of files by path; `limit` was applied when they were fetched."""
        return {entry.path: self._files[entry.path] for entry in wanted}

    @cached_property
    def _files(self) -> dict[str, bytes]:
        found = {CATALOG: self.catalog}
        with self.http.session(self.root) as session:
            for plugin in parse_catalog(self.catalog):
                for folder in _site_folders(plugin):
                    if len(found) < _MOST_SKILLS * 10:
                        found.update(self._skill(session, folder))
        return found

    def _skill(self, session: HubSession, folder: str) -> Iterator[tuple[str, bytes]]:
        path = joined(folder, "SKILL.md")
        content = self._file(session, path)
        if content is None:
            return
        yield path, content
        for name in _linked(content.decode("utf-8", "replace"))[: STRICT.files * 2]:
            linked = self._file(session, joined(folder, name))
            if linked is not None:
                yield joined(folder, name), linked

    def _file(self, session: HubSession, path: str) -> bytes | None:
        try:
            return session.get(f"{self.root}/{quote(path)}", limit=STRICT.each, accept="*/*").content
        except HubMissingError:
            return None


def _site_folders(plugin: Plugin) -> list[str]:
    """Return folders that may hold a plugin's skills, according to its entry."""
    if plugin.place is None or plugin.place.repository:
        return []
    root = plugin.place.folder
    named = [joined(root, folder) for folder in plugin.skills]
    return list(dict.fromkeys(named or [joined(root, f"skills/{plugin.name}"), root]))


def _linked(text: str) -> list[str]:
    """Return the paths of the skill's files that its text mentions."""
    found: list[str] = []
    for match in (*_LINK.finditer(text), *_NAMED.finditer(text)):
        name = match[1].removeprefix("./")
        try:
            safe_path(name)
        except HubRefusedError:
            continue
        if ":" not in name and PurePosixPath(name).suffix:
            found.append(name)
    return list(dict.fromkeys(found))
