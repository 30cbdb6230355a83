"""Opening sources, finding the requested skill, and fetching it into quarantine."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from agent.core.home import Home
from agent.knowledge.skills.catalog import BUNDLED
from agent.knowledge.skills.hub import bundle, git
from agent.knowledge.skills.hub.bundle import (
    FetchedSkill,
    HubError,
    HubMissingError,
    HubRefusedError,
    SkillSource,
    SourceKind,
    hashes_of,
    skill_text,
)
from agent.knowledge.skills.hub.git import TreeEntry, TreeSource
from agent.knowledge.skills.hub.http import HubHttp, check_address, origin
from agent.knowledge.skills.hub.sources import github
from agent.knowledge.skills.hub.sources.github import GitHubSource, GitHubTree, GitSource
from agent.knowledge.skills.hub.sources.marketplace import CATALOG, MarketplaceSource, OpenTree, SiteTree
from agent.knowledge.skills.hub.sources.packages import (
    CLAWHUB,
    LOBEHUB,
    ClawHubSource,
    LobeHubSource,
    WellKnownSource,
)
from agent.knowledge.skills.scanner import SkillScan, scan_folder
from agent.knowledge.skills.skill import (
    Decision,
    Skill,
    SkillFormatError,
    Trust,
    decide,
    load,
    loadable_name,
    read,
    trust_of,
    validate,
)
from agent.model.addresses import is_loopback
from tools.kit.files import read_bytes
from tools.text.words import brief

_MOST_ENTRIES = 20_000
_PASSED_OVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})


@dataclass(frozen=True)
class FolderTree:
    """The files below a folder. Links are not followed."""

    root: Path

    @property
    def entries(self) -> tuple[TreeEntry, ...]:
        """All files. Raises `HubError` for a folder that is unreadable or has too many files."""
        return self._entries

    @cached_property
    def _entries(self) -> tuple[TreeEntry, ...]:
        found = []
        for entry in self._walk():
            found.append(entry)
            if len(found) > _MOST_ENTRIES:
                raise HubError(f"{brief(self.root, 200)} has too many files; name the folder of the skill.")
        return tuple(found)

    @property
    def revision(self) -> str:
        """An empty text: a folder has no versions, only hashes of its files."""
        return ""

    def _walk(self) -> Iterator[TreeEntry]:
        waiting = [self.root]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as scanned:
                    entries = sorted(scanned, key=lambda each: each.name)
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        if entry.name not in _PASSED_OVER:
                            waiting.append(Path(entry.path))
                        continue
                    yield self._entry(Path(entry.path), status)
            except OSError as error:
                cause = error.strerror or str(error)
                raise HubError(f"{brief(folder, 200)} cannot be read: {cause}.") from None

    def _entry(self, path: Path, status: os.stat_result) -> TreeEntry:
        name = path.relative_to(self.root).as_posix()
        if stat.S_ISLNK(status.st_mode):
            return TreeEntry(name, "link", 0)
        if not stat.S_ISREG(status.st_mode):
            return TreeEntry(name, "other", 0)
        return TreeEntry(name, "file", status.st_size, executable=bool(status.st_mode & 0o111))

    def read(self, wanted: Sequence[TreeEntry], limit: int) -> Mapping[str, bytes]:
        """Return the contents by path. Raises `HubRefusedError` for a file that grew or became unreadable."""
        found: dict[str, bytes] = {}
        for entry in wanted:
            try:
                found[entry.path] = read_bytes(self.root / entry.path, limit)[0]
            except (OSError, ValueError) as error:
                cause = getattr(error, "strerror", None) or str(error)
                raise HubRefusedError(f"{brief(entry.path)} cannot be taken: {brief(cause)}.") from None
        return found


def folder_source(name: str, path: str, base: Path, *, is_builtin: bool = False) -> TreeSource:
    """Return a source for skills in a folder; a relative path is relative to `base`. Raises
    `HubMissingError`.
    """
    text = path.removeprefix("file://")
    try:
        root = Path(os.path.realpath(base / Path(text).expanduser()))
        is_folder = root.is_dir()
    except (OSError, RuntimeError, ValueError):
        raise HubMissingError(f"{brief(path, 200)!r} is not a path of a folder.") from None
    if not is_folder and root.name in ("SKILL.md", "skill.md") and root.is_file():
        root, is_folder = root.parent, True
    if not is_folder:
        raise HubMissingError(f"There is no folder {brief(root, 200)}.")
    tree = FolderTree(root)
    repository = "official" if is_builtin else ""
    return TreeSource(name, "folder", str(root), tree, repository=repository)


OFFICIAL = "official"
_REPOSITORY_HOSTS = ("github.com", "www.github.com", "gitlab.com", "bitbucket.org", "codeberg.org")
_GITHUB = re.compile(r"[A-Za-z0-9][\w-]*/[\w.-]+(/[^@]*)?(@[\w./+-]+)?")
_VERSION = re.compile(r"(?<=.)@([A-Za-z0-9][A-Za-z0-9.+_-]*)$")
_KINDS: tuple[SourceKind, ...] = (
    "github",
    "git",
    "folder",
    "well-known",
    "marketplace",
    "clawhub",
    "lobehub",
)


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A source named in the settings, a lock file, or the user's input."""

    name: str
    kind: SourceKind
    url: str
    """An address, `owner/repository`, or a folder."""
    token: str = field(default="", repr=False)
    """A token that is sent only to the origin of the address."""


@dataclass(frozen=True, slots=True)
class SkillReference:
    """A reference to one skill of one source."""

    place: SourcePlace
    item: str
    version: str = ""


PUBLIC = (
    SourcePlace("openai/skills", "github", "openai/skills"),
    SourcePlace("anthropics/skills", "github", "anthropics/skills"),
    SourcePlace("huggingface/skills", "github", "huggingface/skills"),
    SourcePlace("NVIDIA/skills", "github", "NVIDIA/skills"),
    SourcePlace("clawhub", "clawhub", CLAWHUB),
    SourcePlace("lobehub", "lobehub", LOBEHUB),
)
"""The sources searched if the settings name none."""


@dataclass(frozen=True, slots=True)
class SkillSources:
    """The configured sources."""

    base: Path
    """The folder for relative paths."""
    configured: tuple[SourcePlace, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    bundled: Path = BUNDLED
    http: HubHttp = field(default_factory=HubHttp)
    git_seconds: float = git.SECONDS

    def search_places(self) -> tuple[SourcePlace, ...]:
        """Return the sources to search: the built-in and the configured ones (if none, the public ones)."""
        return (self._official, *(self.configured or PUBLIC))

    def source(self, name: str) -> SourcePlace:
        """Return the source with this name. Raises `HubError`."""
        known = self._all_sources()
        if name not in known:
            raise HubError(f"There is no source {brief(name)!r}; there are {', '.join(sorted(known))}.")
        return known[name]

    def _all_sources(self) -> dict[str, SourcePlace]:
        return {place.name: place for place in (*PUBLIC, self._official, *self.configured)}

    @property
    def _official(self) -> SourcePlace:
        return SourcePlace(OFFICIAL, "folder", str(self.bundled))

    def reference(self, text: str) -> SkillReference | None:
        """Parse a skill identifier; return None for a name without a source, which any source may have.

        Raises `HubError` for an invalid identifier.
        """
        text = text.strip()
        if not text or len(text) > 1_000:
            raise HubError("Name a skill: owner/repository/folder, SOURCE:NAME, an address or a folder.")
        is_path = text.startswith((".", "/", "~", "file://"))
        if is_path and not text.partition("#")[0].endswith(".git") and ".git@" not in text:
            return SkillReference(SourcePlace("folder", "folder", str(self._path(text))), "")
        prefix, colon, rest = text.partition(":")
        if colon and not rest.startswith("//"):
            place = self._by_prefix(prefix, rest)
            if place is not None:
                return place
        name, slash, rest = text.partition("/")
        known = self._all_sources()
        if slash and name in known and rest:
            return self._of(known[name], rest)
        return self._address(text) or self._github(text)

    def _by_prefix(self, prefix: str, rest: str) -> SkillReference | None:
        known = self._all_sources()
        if prefix in known:
            return self._of(known[prefix], rest)
        if prefix not in _KINDS:
            return None
        if prefix == "github":
            return self._github(rest.removeprefix("https://github.com/"))
        if prefix == "git":
            return self._git(rest)
        url, _, item = rest.partition("#")
        if prefix == "folder":
            return SkillReference(SourcePlace("folder", "folder", str(self._path(url))), item)
        return SkillReference(SourcePlace(prefix, prefix, url), item)  # type: ignore[arg-type]

    def _of(self, place: SourcePlace, item: str) -> SkillReference:
        """Return a reference to the skill `item` of a known source. `@` and a version may follow the item."""
        match = _VERSION.search(item) if place.kind in ("clawhub", "lobehub", "github", "git") else None
        return (
            SkillReference(place, item[: match.start()], match[1]) if match else SkillReference(place, item)
        )

    def _address(self, text: str) -> SkillReference | None:
        bare = text.partition("#")[0].partition(".git@")[0]
        is_git = text.startswith(("git+", "ssh://", "git@", "git://")) or ".git@" in text
        if is_git or bare.endswith(".git"):
            return self._git(text)
        if "://" not in text:
            return None
        url, _, item = text.partition("#")
        check_address(url)
        if urlsplit(url).hostname in ("github.com", "www.github.com"):
            where = github.place(url)
            address = f"https://github.com/{where.repository}"
            return SkillReference(SourcePlace("github", "github", address), where.folder, where.ref)
        kind: SourceKind = "marketplace" if url.endswith("/marketplace.json") else "well-known"
        return SkillReference(SourcePlace(kind, kind, url), item)

    def _git(self, text: str) -> SkillReference:
        where = git.place(text, self.base)
        return SkillReference(SourcePlace("git", "git", where.url), where.folder, where.ref)

    def _github(self, text: str) -> SkillReference | None:
        if not _GITHUB.fullmatch(text):
            if "/" in text or ":" in text or " " in text:
                raise HubError(f"{brief(text)!r} names no skill; see `hermes skills install --help`.")
            return None
        where = github.place(text)
        return SkillReference(SourcePlace("github", "github", where.repository), where.folder, where.ref)

    def _path(self, text: str) -> Path:
        try:
            return self.base / Path(text.removeprefix("file://")).expanduser()
        except (RuntimeError, ValueError):
            raise HubError(f"{brief(text)!r} is not a path of a folder.") from None

    def open(self, place: SourcePlace) -> SkillSource:
        """Open a source. Raises `HubError` for an invalid address."""
        http = self._http(place)
        match place.kind:
            case "github":
                return GitHubSource(place.name, github.place(place.url), http)
            case "git":
                return GitSource(place.name, git.place(place.url, self.base), self.git_seconds)
            case "folder":
                is_builtin = place.name == OFFICIAL and place.url == str(self.bundled)
                return folder_source(place.name, place.url, self.base, is_builtin=is_builtin)
            case "marketplace":
                return MarketplaceSource(place.name, place.url, self._open_tree)
            case "well-known":
                check_address(place.url)
                return WellKnownSource(place.name, place.url, http)
            case "clawhub":
                check_address(place.url)
                return ClawHubSource(place.name, place.url, http)
            case "lobehub":
                check_address(place.url)
                return LobeHubSource(place.name, place.url, http)

    def _http(self, place: SourcePlace) -> HubHttp:
        tokens = {
            origin(each.url): each.token
            for each in (place, *self.configured)
            if each.token and each.url.startswith(("http://", "https://"))
        }
        public = self.environ.get("GITHUB_TOKEN", "") or self.environ.get("GH_TOKEN", "")
        if public.isascii() and public.isprintable() and public:
            tokens.setdefault(origin(github.API), public)
        return HubHttp(self.http.connect, self.http.read, self.http.whole, tokens)

    def _site(self, address: str, http: HubHttp) -> SiteTree | None:
        """Return the marketplace served as plain files at an address; None if there is none."""
        if not address.startswith(("http://", "https://")) or address.endswith(".git"):
            return None
        root = address.rstrip("/")
        if root.endswith(".json"):
            content = http.get(root).content
            return SiteTree(http, root.removesuffix(f"/{CATALOG}").removesuffix("/marketplace.json"), content)
        if urlsplit(root).hostname in _REPOSITORY_HOSTS or _is_interface(root):
            return None
        try:
            return SiteTree(http, root, http.get(f"{root}/{CATALOG}").content)
        except HubMissingError:
            return None

    @contextmanager
    def _open_tree(self, address: str, version: str) -> Iterator[OpenTree]:
        """Open a marketplace's files at `owner/repository`, an address or a folder. Raises `HubError`."""
        http = self._http(SourcePlace("marketplace", "marketplace", address))
        parts = urlsplit(address) if "://" in address else None
        site = self._site(address, http) if parts is not None else None
        if site is not None:
            yield OpenTree(site, address)
        elif address.startswith((".", "/", "~")):
            root = folder_source("marketplace", address, self.base)
            yield OpenTree(FolderTree(Path(root.address)), root.address)
        elif (parts is None and _GITHUB.fullmatch(address)) or (
            parts is not None and (parts.hostname in _REPOSITORY_HOSTS[:2] or _is_interface(address))
        ):
            where = github.place(address)
            is_public = where.api == github.API
            tree = GitHubTree(http, where.api, where.repository, version or where.ref)
            shown = f"https://github.com/{where.repository}" if is_public else address
            yield OpenTree(tree, shown, where.repository if is_public else "")
        else:
            with git.fetched(git.place(address, self.base), version, self.git_seconds) as tree:
                yield OpenTree(tree, address)


def _is_interface(address: str) -> bool:
    """Return whether an address is a GitHub API on a server other than github.com."""
    steps = urlsplit(address).path.split("/")
    return steps[1:2] == ["repos"] or steps[1:3] == ["api", "v3"]


_STALE = 24 * 3600
"""Seconds after which folders left in quarantine by a killed process are removed."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill that could be installed, and the results of its checks."""

    place: SourcePlace
    item: str
    """The item requested from the source."""
    fetched: FetchedSkill
    skill: Skill
    """The skill as read from quarantine."""
    hashes: dict[str, str]
    """SHA-256 of the files in quarantine, by path."""
    delivered: dict[str, str]
    """SHA-256 of the delivered files: the same, unless the user's edits were kept."""
    trust: Trust
    scan: SkillScan
    notes: tuple[str, ...]
    """Notes for the user besides the findings, a sentence each."""

    @property
    def name(self) -> str:
        """The name of the skill according to its SKILL.md."""
        return self.skill.name

    def decision(self, *, force: bool = False) -> Decision:
        """Return whether the skill may be installed; `force` overrides mild findings."""
        return decide(self.trust, self.scan.verdict, force=force)


@contextmanager
def quarantine_skill(
    home: Home,
    place: SourcePlace,
    item: str,
    fetched: FetchedSkill,
    *,
    delivered: Mapping[str, str] | None = None,
    bundled: Path = BUNDLED,
) -> Iterator[Candidate]:
    """Write the skill into quarantine and scan it; after the block its folder is deleted, unless it was
    moved.

    `delivered` are the hashes of the delivery, if `fetched` also holds edits. Raises `HubError`.
    """
    room = home.root / "skills" / ".quarantine"
    _clear(room)
    box = room / secrets.token_hex(8)
    name = _name(fetched)
    folder = box / name
    try:
        bundle.write_files(folder, fetched.files)
        trust = trust_of(fetched.offer.origin) if fetched.offer.origin else "community"
        scan = scan_folder(folder, outside=trust in ("trusted", "community"))
        try:
            skill = load(folder, "user")
        except SkillFormatError as error:
            raise HubRefusedError(f"What was delivered is not a skill: {brief(error, 200)}.") from None
        notes = (*fetched.offer.notes, *fetched.notes, *_notes(fetched, skill, bundled))
        found = hashes_of(fetched.files)
        told = tuple(dict.fromkeys(notes))
        yield Candidate(place, item, fetched, skill, found, dict(delivered or found), trust, scan, told)
    finally:
        shutil.rmtree(box, ignore_errors=True)


def _name(fetched: FetchedSkill) -> str:
    """Return the skill's name in the SKILL.md. Raises `HubRefusedError`."""
    try:
        name = str(read(skill_text(fetched.files)).fields["name"]).strip()
    except SkillFormatError as error:
        raise HubRefusedError(f"What was delivered is not a skill: {brief(error, 200)}.") from None
    if not loadable_name(name) or name.endswith("."):
        raise HubRefusedError(f"The skill calls itself {brief(name)!r}, which is not a name for a skill.")
    return name


def _notes(fetched: FetchedSkill, skill: Skill, bundled: Path) -> Iterator[str]:
    address = fetched.offer.address
    if address.startswith("http://") and not is_loopback(address):
        yield "it came over plain http, where anybody on the way can change it"
    yield from skill.warnings
    problems = validate(skill_text(fetched.files), skill.name)
    if problems:
        yield f"the validator of the format objects: {brief(problems[0], 200)}"
    if fetched.offer.name not in ("", skill.name):
        yield f"its source calls it {brief(fetched.offer.name)}"
    if fetched.offer.origin.partition("/")[0] != "official" and any(
        (place / "SKILL.md").is_file() for place in (bundled / skill.name, *bundled.glob(f"*/{skill.name}"))
    ):
        yield f"it takes the place of the skill {skill.name} that ships with Hermes"


def _clear(room: Path) -> None:
    try:
        left = [box for box in room.iterdir() if time.time() - box.lstat().st_mtime > _STALE]
    except OSError:
        return
    for box in left:
        shutil.rmtree(box, ignore_errors=True)
