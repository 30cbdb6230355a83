"""Repositories on GitHub, or on a server with the same API, as sources of skills."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlsplit

from agent.knowledge.skills.hub.bundle import (
    STRICT,
    FetchedSkill,
    HubError,
    HubMissingError,
    HubRefusedError,
    Limits,
    SkillOffer,
)
from agent.knowledge.skills.hub.git import SECONDS, GitPlace, TreeEntry, TreeSource, fetched
from agent.knowledge.skills.hub.http import HttpAnswer, HubHttp, HubSession, check_address, host
from tools.text.words import brief

API = "https://api.github.com"
_RAW = "https://raw.githubusercontent.com"
_JSON = "application/vnd.github+json"
_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,38}")
_REPOSITORY = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_REF = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}")
_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_MOST_ENTRIES = 200_000


@dataclass(frozen=True, slots=True)
class GitHubPlace:
    """A repository, a revision, and a folder. Empty means the default branch and the root folder."""

    api: str
    repository: str = ""
    ref: str = ""
    folder: str = ""


def place(url: str) -> GitHubPlace:
    """Parse an address or `owner/repository[/folder][@ref]`. Raises `HubError`."""
    if "://" not in url:
        path, _, ref = url.partition("@")
        return _place(API, path.split("/"), ref)
    check_address(url)
    parts = urlsplit(url)
    steps = [step for step in parts.path.split("/") if step]
    if parts.hostname in ("github.com", "www.github.com"):
        return _place(API, steps)
    base = f"{parts.scheme}://{parts.netloc}"
    if steps[:2] == ["api", "v3"]:
        base, steps = f"{base}/api/v3", steps[2:]
    if steps[:1] == ["repos"]:
        steps = steps[1:]
    return _place(base, steps)


def _place(api: str, steps: Sequence[str], ref: str = "") -> GitHubPlace:
    steps = [step for step in steps if step]
    if not steps:
        return GitHubPlace(api)
    if len(steps) < 2:
        raise HubError(f"{brief('/'.join(steps))!r} names no repository; write owner/repository.")
    owner, name, *rest = steps
    name = name.removesuffix(".git")
    if not _OWNER.fullmatch(owner) or not _REPOSITORY.fullmatch(name):
        raise HubError(f"{brief(f'{owner}/{name}')!r} is not a name of a repository.")
    if len(rest) > 1 and rest[0] in ("tree", "blob"):
        ref, rest = rest[1], rest[2:]
    if ref and not _REF.fullmatch(ref):
        raise HubError(f"{brief(ref)!r} is not a name of a branch, tag or commit.")
    return GitHubPlace(api, f"{owner}/{name}", ref, "/".join(rest))


@dataclass(frozen=True)
class GitHubTree:
    """The files of a repository at one commit; each is checked against its hash."""

    http: HubHttp
    api: str
    repository: str
    ref: str = ""

    @property
    def revision(self) -> str:
        """The commit of the reference; the reference itself if the server does not name the commit."""
        return self._commit

    @property
    def entries(self) -> tuple[TreeEntry, ...]:
        """All files of the commit."""
        return self._entries

    @cached_property
    def _commit(self) -> str:
        if _SHA.fullmatch(self.ref):
            return self.ref
        try:
            answer = self._get(f"commits/{quote(self._branch)}").json()
        except HubMissingError:
            return self._branch
        found = answer.get("sha", "") if isinstance(answer, dict) else ""
        return found if isinstance(found, str) and _SHA.fullmatch(found) else self._branch

    @cached_property
    def _branch(self) -> str:
        if self.ref:
            return self.ref
        answer = self._get("").json()
        branch = answer.get("default_branch") if isinstance(answer, dict) else None
        if not isinstance(branch, str) or not _REF.fullmatch(branch):
            raise HubError(f"{host(self.api)} does not tell the default branch of {self.repository}.")
        return branch

    @cached_property
    def _entries(self) -> tuple[TreeEntry, ...]:
        answer = self._get(f"git/trees/{quote(self.revision)}?recursive=1").json()
        listed = answer.get("tree") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise HubError(f"{host(self.api)} does not list the files of {self.repository}.")
        if answer.get("truncated") or len(listed) > _MOST_ENTRIES:
            raise HubError(
                f"{self.repository} has too many files to be listed; name it as a git URL: "
                f"git+https://github.com/{self.repository}.git"
            )
        return tuple(entry for each in listed if (entry := _entry(each)) is not None)

    def read(self, wanted: Sequence[TreeEntry], limit: int) -> Mapping[str, bytes]:
        """Return the contents by path. Raises `HubRefusedError` if one does not match its hash."""
        with self.http.session(_RAW if self.api == API else self.api) as session:
            return {entry.path: self._verified(session, entry, limit) for entry in wanted}

    def _verified(self, session: HubSession, entry: TreeEntry, limit: int) -> bytes:
        content = self._content(session, entry, limit)
        algorithm = "sha1" if len(entry.id) == 40 else "sha256"
        digest = hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False)
        if digest.hexdigest() != entry.id:
            raise HubRefusedError(
                f"{brief(entry.path)} of {self.repository} is not the file that its commit names; "
                "nothing is taken."
            )
        return content

    def _content(self, session: HubSession, entry: TreeEntry, limit: int) -> bytes:
        path = f"{self.repository}/{quote(self.revision)}/{quote(entry.path)}"
        if self.api == API:
            return session.get(f"{_RAW}/{path}", limit=limit, accept="*/*").content
        base = f"{self.api}/repos/{self.repository}"
        by_name = f"contents/{quote(entry.path)}?ref={quote(self.revision, safe='')}"
        for way in (f"git/blobs/{entry.id}", by_name):
            try:
                return _decoded(session.get(f"{base}/{way}", limit=limit * 2 + 4_096, accept=_JSON), limit)
            except HubMissingError:
                continue
        return session.get(f"{self.api}/{path}", limit=limit, accept="*/*").content

    def _get(self, what: str) -> HttpAnswer:
        return self.http.get(f"{self.api}/repos/{self.repository}/{what}".rstrip("/"), accept=_JSON)


def _entry(record: Any) -> TreeEntry | None:
    """Parse one row of a tree; None if it is a folder or invalid."""
    if not isinstance(record, dict) or record.get("type") == "tree":
        return None
    path, mode, size, digest = (record.get(key) for key in ("path", "mode", "size", "sha"))
    if not isinstance(path, str) or not path:
        return None
    digest = digest if isinstance(digest, str) and _SHA.fullmatch(digest) else ""
    size = size if isinstance(size, int) and size >= 0 else 0
    if record.get("type") == "commit" or mode == "160000":
        return TreeEntry(path, "submodule", 0)
    if mode == "120000":
        return TreeEntry(path, "link", size, digest)
    if record.get("type") != "blob":
        return TreeEntry(path, "other", size)
    return TreeEntry(path, "file", size, digest, executable=mode == "100755")


def _decoded(answer: HttpAnswer, limit: int) -> bytes:
    """Decode the content of a file from an answer of the API: JSON with base64. Raises `HubError`."""
    record = answer.json()
    text = record.get("content") if isinstance(record, dict) else None
    if not isinstance(text, str) or record.get("encoding") != "base64":
        raise HubError(f"{host(answer.url)} answered with something that is not a file.")
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise HubError(f"{host(answer.url)} answered with a damaged file.") from None
    if len(content) > limit:
        raise HubRefusedError(f"{host(answer.url)} sends more than {limit:,} bytes, which is not taken.")
    return content


@dataclass(frozen=True)
class GitHubSource:
    """The skills of one repository, or of any repository if the address names none."""

    name: str
    place: GitHubPlace
    http: HubHttp = field(default_factory=HubHttp)

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Return matching skills of the repository. Raises `HubError` if the address names none."""
        if not self.place.repository:
            raise HubError(
                f"The source {self.name} names no repository to search; write it into its address."
            )
        return self._source(self.place, "").search(query, limit)

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """Return the description of one skill, fetching only its SKILL.md."""
        where, inner = self._where(item)
        return self._source(where, version).inspect(inner)

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Return one skill's files at a commit, tag or branch; without `version` at the newest commit."""
        where, inner = self._where(item)
        return self._source(where, version).fetch(inner, limits=limits)

    def _where(self, item: str) -> tuple[GitHubPlace, str]:
        if self.place.repository:
            return self.place, item or self.place.folder
        steps = item.split("/")
        where = _place(self.place.api, steps)
        return where, where.folder

    def _source(self, where: GitHubPlace, version: str) -> TreeSource:
        if version and not _REF.fullmatch(version):
            raise HubError(f"{brief(version)!r} is not a name of a branch, tag or commit.")
        tree = GitHubTree(self.http, where.api, where.repository, version or where.ref)
        is_public = where.api == API
        address = f"https://github.com/{where.repository}" if is_public else f"{where.api}/{where.repository}"
        below = where.folder if self.place.repository else ""
        return TreeSource(self.name, "github", address, tree, below, where.repository if is_public else "")


@dataclass(frozen=True, slots=True)
class GitSource:
    """The skills of one git repository. Each operation fetches the commit again."""

    name: str
    place: GitPlace
    seconds: float = SECONDS

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Return matching skills, the best matches first."""
        with self._tree("") as source:
            return source.search(query, limit)

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """Return the description of one skill."""
        with self._tree(version) as source:
            return source.inspect(item or self.place.folder)

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Return the files of one skill at a commit, tag or branch; without `version`, as configured."""
        with self._tree(version) as source:
            return source.fetch(item or self.place.folder, limits=limits)

    @contextmanager
    def _tree(self, version: str) -> Iterator[TreeSource]:
        with fetched(self.place, version, self.seconds) as tree:
            yield TreeSource(self.name, "git", self.place.url, tree, self.place.folder)
