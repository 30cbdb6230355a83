"""Registries that deliver skills as one zip each: ClawHub and LobeHub."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from agent.knowledge.skills.hub.bundle import (
    STRICT,
    FetchedSkill,
    HubError,
    HubMissingError,
    HubRefusedError,
    Limits,
    SkillFile,
    SkillOffer,
    checked,
    unpack,
)
from agent.knowledge.skills.hub.http import LARGEST_ARCHIVE, HttpAnswer, HubHttp, host
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
    """Return the first of these fields that holds text, on one line."""
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
    """Return the files in a zip after checking it against the hash that came with it."""
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
        """Return the registry's search results."""
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
        """Return one version of a skill; without `version` the newest."""
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
        """Return the market's search results."""
        wanted = {"page": "1", "pageSize": str(min(limit, 50))} | ({"q": query} if query.strip() else {})
        answer = self.http.get(f"{self._base}?{urlencode(wanted)}")
        offers = (self._offer(each) for each in _records(answer, "items", "skills", "data"))
        return tuple(offer for offer in offers if offer.item)[:limit]

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """Return one skill and its newest version."""
        data = self.http.get(f"{self._base}/{quote(_slug(item), safe='')}").json()
        if isinstance(data, Mapping) and isinstance(data.get("data"), Mapping):
            data = data["data"]
        if not isinstance(data, Mapping):
            raise HubError(f"{host(self.url)} answered with something that is not a skill.")
        return self._offer(data, item)

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Return one version of a skill; without `version` the newest."""
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
