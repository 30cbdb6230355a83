"""Sources of skills over HTTP: ClawHub, LobeHub, and sites that list theirs under `/.well-known`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

from agent.knowledge.skills.hub.bundle import (
    STRICT,
    FetchedSkill,
    HubError,
    HubMissingError,
    HubRefusedError,
    Limits,
    SkillFile,
    SkillOffer,
    check_count,
    checked,
    hashes_of,
    matches,
    safe_path,
    tree_digest,
    unpack,
)
from agent.knowledge.skills.hub.git import head_of
from agent.knowledge.skills.hub.http import LARGEST_ARCHIVE, HttpAnswer, HubHttp, host, origin
from tools.text.words import brief

CLAWHUB = "https://clawhub.ai"
LOBEHUB = "https://market.lobehub.com"
_SLUG = re.compile(r"(@?[A-Za-z0-9][A-Za-z0-9._-]{0,99}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")
_REGISTRY_FILES = frozenset({"_meta.json", "skill-card.md"})
"""Files added to an archive by ClawHub that are not part of the skill."""


def _slug(item: str) -> str:
    if not _SLUG.fullmatch(item):
        raise HubError(f"{brief(item)!r} is not a name of a skill in a registry.")
    return item.rpartition("/")[2]


def _version(version: str) -> str:
    if version and not _VERSION.fullmatch(version):
        raise HubError(f"{brief(version)!r} is not a version.")
    return version


def _text(record: Any, *keys: str) -> str:
    """Return the first of these fields that holds text, on one line; empty if none does."""
    if isinstance(record, Mapping):
        for key in keys:
            if isinstance(record.get(key), str) and record[key].strip():
                return brief(record[key], 1_024)
    return ""


def _records(answer: HttpAnswer, *keys: str) -> list[Mapping[str, Any]]:
    """Return the list in an answer, at the top level or under one of these keys. Raises `HubError`."""
    data = answer.json()
    listed = data if isinstance(data, list) else None
    if isinstance(data, Mapping):
        listed = next((data[key] for key in keys if isinstance(data.get(key), list)), None)
    if listed is None:
        raise HubError(f"{host(answer.url)} answered with something that is not a list of skills.")
    return [each for each in listed if isinstance(each, Mapping)]


def _packed(answer: HttpAnswer, limits: Limits) -> tuple[SkillFile, ...]:
    """Return the files in a zip. Raises `HubRefusedError` if it does not match the hash sent with it."""
    named = next(
        (value for key, value in answer.headers.items() if key.lower() == "x-clawhub-artifact-sha256"), ""
    )
    found = hashlib.sha256(answer.content).hexdigest()
    if named and named.lower().removeprefix("sha256:") != found:
        raise HubRefusedError(
            f"{host(answer.url)} sent another archive than it says: its SHA-256 is {found[:12]}…, "
            f"not {brief(named)[:12]}…; nothing is taken."
        )
    return unpack(answer.content, limits)


@dataclass(frozen=True, slots=True)
class ClawHubSource:
    """The registry at clawhub.ai, or another with the same API."""

    name: str
    url: str = CLAWHUB
    http: HubHttp = field(default_factory=HubHttp)

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Return the registry's search results; for an empty query, its list of skills."""
        wanted = {"limit": str(limit)}
        if query.strip():
            answer = self._get(f"search?{urlencode({'q': query, **wanted})}")
        else:
            answer = self._get(f"skills?{urlencode(wanted)}")
        offers = (self._offer(each, {}) for each in _records(answer, "results", "items", "skills"))
        return tuple(offer for offer in offers if offer.item)[:limit]

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """Return one skill and its newest version. Raises `HubRefusedError` for a blocked one."""
        data = self._get(f"skills/{quote(_slug(item), safe='')}").json()
        record = data.get("skill") if isinstance(data, Mapping) else None
        if not isinstance(record, Mapping):
            raise HubError(f"{host(self.url)} answered with something that is not a skill.")
        offer = self._offer(record, data, item)
        moderation = data.get("moderation")
        if isinstance(moderation, Mapping) and moderation.get("isMalwareBlocked"):
            raise HubRefusedError(
                f"{host(self.url)} itself blocks {brief(item)} as malware; it is not taken."
            )
        return offer

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Return the files of one version of a skill; without `version` of the newest."""
        offer = self.inspect(item)
        chosen = _version(version or offer.version)
        wanted = {"slug": _slug(item)} | ({"version": chosen} if chosen else {})
        answer = self.http.get(
            f"{self._base}/download?{urlencode(wanted)}", limit=LARGEST_ARCHIVE, accept="application/zip"
        )
        files = (file for file in _packed(answer, limits) if file.path not in _REGISTRY_FILES)
        shown = replace(offer, version=chosen)
        return FetchedSkill(shown, checked(files, limits))

    @property
    def _base(self) -> str:
        return f"{self.url.rstrip('/')}/api/v1"

    def _get(self, what: str) -> HttpAnswer:
        return self.http.get(f"{self._base}/{what}")

    def _offer(self, record: Mapping[str, Any], whole: Mapping[str, Any], item: str = "") -> SkillOffer:
        slug = _text(record, "slug") or item
        tags = record.get("tags")
        newest = whole.get("latestVersion") or record.get("latestVersion")
        version = _text(newest, "version") or _text(record, "version") or _text(tags, "latest")
        owner = _text(whole.get("owner"), "handle") or _text(record, "ownerHandle")
        moderation = whole.get("moderation")
        notes = [f"published by {owner}"] if owner else []
        if isinstance(moderation, Mapping) and moderation.get("isSuspicious"):
            reason = _text(moderation, "summary") or "no reason given"
            notes.append(f"the registry itself calls it suspicious: {reason}")
        return SkillOffer(
            source=self.name,
            kind="clawhub",
            item=item or (slug if _SLUG.fullmatch(slug) else ""),
            name=slug,
            description=_text(record, "summary", "description", "displayName"),
            version=version,
            address=self.url,
            notes=tuple(notes),
        )


@dataclass(frozen=True, slots=True)
class LobeHubSource:
    """The market at market.lobehub.com, or another with the same API."""

    name: str
    url: str = LOBEHUB
    http: HubHttp = field(default_factory=HubHttp)

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Return the market's search results; for an empty query, its list of skills."""
        wanted = {"page": "1", "pageSize": str(min(limit, 50))} | ({"q": query} if query.strip() else {})
        answer = self.http.get(f"{self._base}?{urlencode(wanted)}")
        offers = (self._offer(each) for each in _records(answer, "items", "skills", "data"))
        return tuple(offer for offer in offers if offer.item)[:limit]

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """Return the description of a skill in its newest version, whatever `version`. Raises `HubError`."""
        data = self.http.get(f"{self._base}/{quote(_slug(item), safe='')}").json()
        if isinstance(data, Mapping) and isinstance(data.get("data"), Mapping):
            data = data["data"]
        if not isinstance(data, Mapping):
            raise HubError(f"{host(self.url)} answered with something that is not a skill.")
        return self._offer(data, item)

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Return the files of one version of a skill, by default the newest. Raises `HubError`."""
        try:
            offer = self.inspect(item)
        except HubMissingError:
            raise HubMissingError(f"{host(self.url)} has no skill {brief(item)!r}.") from None
        chosen = _version(version or offer.version)
        query = f"?{urlencode({'version': chosen})}" if chosen else ""
        answer = self.http.get(
            f"{self._base}/{quote(_slug(item), safe='')}/download{query}",
            limit=LARGEST_ARCHIVE,
            accept="application/zip",
        )
        shown = replace(offer, version=chosen)
        return FetchedSkill(shown, checked(_packed(answer, limits), limits))

    @property
    def _base(self) -> str:
        return f"{self.url.rstrip('/')}/api/v1/skills"

    def _offer(self, record: Mapping[str, Any], item: str = "") -> SkillOffer:
        identifier = _text(record, "identifier", "id") or item
        author = _text(record, "author") or _text(record.get("author"), "name")
        return SkillOffer(
            source=self.name,
            kind="lobehub",
            item=item or (identifier if _SLUG.fullmatch(identifier) else ""),
            name=_text(record, "name") or identifier,
            description=_text(record, "description", "summary"),
            version=_text(record, "version", "currentVersion"),
            address=self.url,
            notes=(f"published by {author}",) if author else (),
        )


SCHEMA = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
PLACES = ("/.well-known/agent-skills/index.json", "/.well-known/skills/index.json")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MOST_SKILLS = 2_000
_NO_DIGEST = "the index has no digests (version 0.1), so nobody vouches for the bytes"


@dataclass(frozen=True, slots=True)
class _Artifact:
    """The address of a file to fetch, and its expected SHA-256 (empty if unknown)."""

    path: str
    url: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class IndexedSkill:
    """One entry of an index: an archive, or single files."""

    name: str
    description: str
    digest: str
    archive: _Artifact | None = None
    files: tuple[_Artifact, ...] = ()


def parse_index(data: Any, url: str) -> tuple[IndexedSkill, ...]:
    """Parse an index found at `url`; entries of unknown types are skipped.

    Raises `HubError` for an index of an unknown version or form.
    """
    if not isinstance(data, dict) or not isinstance(data.get("skills"), list):
        raise HubError(f"The index of skills at {host(url)} has no list of skills.")
    schema, version = data.get("$schema"), data.get("version")
    if schema is not None and schema != SCHEMA:
        raise HubError(
            f"The index at {host(url)} is of a version that is not known here: {brief(schema, 120)}."
        )
    if isinstance(version, str) and not re.match(r"0\.[12](\.|$)", version) and schema is None:
        raise HubError(f"The index at {host(url)} is of version {brief(version)}, which is not known here.")
    entries = (_entry(each, url, schema is not None) for each in data["skills"][:_MOST_SKILLS])
    return tuple(entry for entry in entries if entry is not None)


def _entry(record: Any, url: str, is_new: bool) -> IndexedSkill | None:
    if not isinstance(record, dict):
        return None
    name, description = record.get("name"), record.get("description", "")
    if not isinstance(name, str) or len(name) > 64 or not _NAME.fullmatch(name):
        return None
    text = brief(description, 1_024) if isinstance(description, str) else ""
    if is_new:
        return _current(record, url, name, text)
    listed = record.get("files")
    if not isinstance(listed, list) or not listed:
        listed = ["SKILL.md"]
    files = []
    for each in listed:
        path = each.get("path") if isinstance(each, dict) else each
        digest = _hex(each.get("digest"), name) if isinstance(each, dict) else ""
        if not isinstance(path, str):
            raise HubError(f"The index at {host(url)} names a file of {name} that is not a path.")
        files.append(_Artifact(path, urljoin(url, f"{name}/{quote(path)}"), digest))
    return IndexedSkill(name, text, _hex(record.get("digest"), name), None, tuple(files))


def _current(record: Mapping[str, Any], url: str, name: str, description: str) -> IndexedSkill | None:
    kind, target = record.get("type"), record.get("url")
    if kind not in ("skill-md", "archive") or not isinstance(target, str):
        return None
    digest = _hex(record.get("digest"), name)
    if not digest:
        return None
    artifact = _Artifact("SKILL.md", urljoin(url, target), digest)
    if kind == "archive":
        return IndexedSkill(name, description, digest, artifact)
    return IndexedSkill(name, description, digest, None, (artifact,))


def _hex(digest: object, name: str) -> str:
    """Return the hexadecimal part of a digest; empty for None. Raises `HubError` for another form."""
    if digest is None:
        return ""
    match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if match is None:
        raise HubError(f"The index gives {brief(name)} a digest that is not a sha256.")
    return match[1]


@dataclass(frozen=True, slots=True)
class WellKnownSource:
    """The skills that a site lists in its index under `/.well-known`."""

    name: str
    url: str
    http: HubHttp = field(default_factory=HubHttp)

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Return entries whose name or description contains all words, the best matches first."""
        where, entries = self._index()
        found = [(matches(query, each.name, each.description), self._offer(where, each)) for each in entries]
        ranked = sorted((each for each in found if each[0]), key=lambda each: (-each[0], each[1].name))
        return tuple(offer for _, offer in ranked[:limit])

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """Return the description of one skill in the index."""
        where, entries = self._index()
        return self._offer(where, self._pick(entries, item))

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Return the files of one skill, checked against the index's digests, if any. Raises `HubError`."""
        where, entries = self._index()
        entry = self._pick(entries, item)
        files = self._archived(entry, limits) if entry.archive else self._single(entry, limits)
        files = checked(files, limits)
        if not entry.archive and entry.digest and len(entry.files) == len(files) > 1:
            _compare(entry.name, tree_digest(hashes_of(files)), entry.digest)
        text = next(file.content for file in files if file.path in ("SKILL.md", "skill.md"))
        named = head_of(text, entry.name)[0]
        if named != entry.name:
            raise HubRefusedError(
                f"The index calls the skill {entry.name}, but its SKILL.md {brief(named)}; it is not taken."
            )
        return FetchedSkill(self._offer(where, entry), files, () if entry.digest else (_NO_DIGEST,))

    def _archived(self, entry: IndexedSkill, limits: Limits) -> tuple[SkillFile, ...]:
        assert entry.archive is not None
        return unpack(self._artifact(entry, entry.archive, LARGEST_ARCHIVE), limits)

    def _single(self, entry: IndexedSkill, limits: Limits) -> tuple[SkillFile, ...]:
        files: list[SkillFile] = []
        total = 0
        if len(entry.files) > limits.files:
            check_count(len(entry.files), 0, 0, "", limits)
        for artifact in entry.files:
            path = safe_path(artifact.path)
            content = self._artifact(entry, artifact, limits.each)
            total += len(content)
            check_count(len(files) + 1, total, len(content), path, limits)
            files.append(SkillFile(path, content))
        return tuple(files)

    def _artifact(self, entry: IndexedSkill, artifact: _Artifact, limit: int) -> bytes:
        if origin(artifact.url) != origin(self.url):
            raise HubRefusedError(
                f"The index of {host(self.url)} keeps {entry.name} at {host(artifact.url)}, "
                "and another host is not asked."
            )
        content = self.http.get(artifact.url, limit=limit, accept="*/*").content
        if artifact.digest:
            _compare(entry.name, hashlib.sha256(content).hexdigest(), artifact.digest)
        return content

    def _index(self) -> tuple[str, tuple[IndexedSkill, ...]]:
        path, base = urlsplit(self.url).path, self.url.rstrip("/")
        if path.endswith(".json"):
            places = [self.url]
        elif "/.well-known/" in path:
            places = [f"{base}/index.json"]
        else:
            places = [f"{base}{place}" for place in PLACES]
        for place in places:
            try:
                answer = self.http.get(place)
            except HubMissingError:
                continue
            return answer.url, parse_index(answer.json(), answer.url)
        raise HubMissingError(f"{host(self.url)} lists no skills: it has no {PLACES[0]}.")

    def _pick(self, entries: tuple[IndexedSkill, ...], item: str) -> IndexedSkill:
        found = [entry for entry in entries if entry.name == item or (not item and len(entries) == 1)]
        if not found:
            names = ", ".join(entry.name for entry in entries[:12]) or "none"
            raise HubMissingError(f"{host(self.url)} lists no skill {brief(item)!r}; it has {names}.")
        return found[0]

    def _offer(self, where: str, entry: IndexedSkill) -> SkillOffer:
        version = f"sha256:{entry.digest}" if entry.digest else ""
        return SkillOffer(
            source=self.name,
            kind="well-known",
            item=entry.name,
            name=entry.name,
            description=entry.description,
            version=version,
            address=where,
            notes=() if entry.digest else (_NO_DIGEST,),
        )


def _compare(name: str, found: str, expected: str) -> None:
    if found != expected:
        raise HubRefusedError(
            f"{name} is not what the index promises: its SHA-256 is {found[:12]}…, not {expected[:12]}…; "
            "nothing is taken."
        )
