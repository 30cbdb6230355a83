"""A marketplace as plain files on a web server, which lists nothing: what its documents name is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from urllib.parse import quote

from agent.knowledge.skills.hub.bundle import STRICT, safe_path
from agent.knowledge.skills.hub.http import HubHttp, HubSession
from agent.knowledge.skills.hub.problems import HubMissingError, HubRefusedError
from agent.knowledge.skills.hub.sources.marketplace import CATALOG, Plugin, joined, parse_catalog
from agent.knowledge.skills.hub.trees import TreeEntry

_MOST_SKILLS = 100
_LINK = re.compile(r"\]\(\s*<?([^)\s>#?]+)")
_NAMED = re.compile(r"\b((?:scripts|references|assets|templates)/[\w./-]*\w)")


@dataclass(frozen=True)
class SiteTree:
    """The catalogue, the SKILL.md of each skill it names, and the files those speak of."""

    http: HubHttp
    root: str
    """The address of the folder that holds `.claude-plugin`."""
    catalog: bytes

    @property
    def revision(self) -> str:
        """A server of files has none."""
        return ""

    @property
    def entries(self) -> tuple[TreeEntry, ...]:
        """All files that were found."""
        return tuple(TreeEntry(path, "file", len(content)) for path, content in self._found.items())

    def read(self, wanted: Sequence[TreeEntry], limit: int) -> Mapping[str, bytes]:
        """Their contents."""
        return {entry.path: self._found[entry.path] for entry in wanted}

    @cached_property
    def _found(self) -> dict[str, bytes]:
        found = {CATALOG: self.catalog}
        with self.http.session(self.root) as session:
            for plugin in parse_catalog(self.catalog):
                for folder in _folders(plugin):
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


def _folders(plugin: Plugin) -> list[str]:
    """Where the skills of a plugin may lie, as far as its entry tells."""
    if plugin.place is None or plugin.place.repository:
        return []
    root = plugin.place.folder
    named = [joined(root, folder) for folder in plugin.skills]
    return list(dict.fromkeys(named or [joined(root, f"skills/{plugin.name}"), root]))


def _linked(text: str) -> list[str]:
    """Files below the skill that its text speaks of."""
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
