"""All operations on skills from outside, for one home."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent.core.home import Home
from agent.knowledge.skills.hub import bundle
from agent.knowledge.skills.hub.bundle import (
    STRICT,
    WIDE,
    HubError,
    HubLimitError,
    HubMissingError,
    HubRefusedError,
    HubUnreachableError,
    Limits,
    SkillFile,
    SkillOffer,
    checked,
    hashes_of,
    tree_digest,
)
from agent.knowledge.skills.hub.installing import InstalledSkills, Side, SkillFileChange, merged
from agent.knowledge.skills.hub.lock import LockedSkill, SnapshotRow
from agent.knowledge.skills.hub.opening import (
    Candidate,
    SkillReference,
    SkillSources,
    SourcePlace,
    quarantined,
)
from agent.knowledge.skills.scanner import SkillScan
from agent.knowledge.skills.skill import Trust, trust_of
from tools.text.words import brief

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

_NOTHING = (SkillFile("SKILL.md", b""),)
AuditState = Literal["ok", "changed", "missing", "unreadable"]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The skills found, and the sources that failed, with the reasons."""

    offers: tuple[SkillOffer, ...]
    problems: tuple[str, ...]
    asked: int
    """The queried sources."""


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """The effect that an update has on one installed skill."""

    row: LockedSkill
    version: str
    """The source's current version."""
    candidate: Candidate | None = None
    """The new version in quarantine, with the user's edits; None if there is nothing new."""
    changes: tuple[SkillFileChange, ...] = ()
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditedSkill:
    """The difference between an installed skill and its approved files."""

    row: LockedSkill
    state: AuditState
    changes: dict[str, str]
    """Files that differ from the delivery, and how."""
    scan: SkillScan
    digest: str = ""
    """The digest of the current files, for `approve`."""
    problem: str = ""


class SkillHub:
    """Search, fetch, install, audit. Every method may touch network and disk, and raise `HubError`."""

    def __init__(self, home: Home, sources: SkillSources) -> None:
        self.home = home
        self.sources = sources
        self.installed = InstalledSkills(home)

    def search(self, query: str, limit: int = 20, source: str = "") -> SearchResult:
        """Return matching skills of all sources, each source in its order, and the sources that failed."""
        places = (self.sources.source(source),) if source else self.sources.search_places()
        with ThreadPoolExecutor(max(1, len(places))) as pool:
            found = list(pool.map(lambda place: self._search_place(place, query, limit), places))
        offers: list[SkillOffer] = []
        problems: list[HubError] = []
        for each in found:
            if isinstance(each, HubError):
                problems.append(each)
            else:
                offers += each
        if problems and len(problems) == len(places):
            raise (
                problems[0]
                if len(places) == 1
                else HubUnreachableError(f"None of the {len(places)} sources can be searched: {problems[0]}")
            )
        return SearchResult(tuple(_mix_offers(offers, query)[:limit]), tuple(map(str, problems)), len(places))

    def find(self, text: str, limit: int = 50) -> tuple[SearchResult, dict[SkillOffer, SkillReference]]:
        """Search for skills; return the result and a reference to each skill in it.

        `text` may be an identifier, which finds one skill, or words.
        """
        try:
            wanted = self.sources.reference(text)
        except HubError:
            wanted = None  # words
        if wanted is not None:
            offer = self.sources.open(wanted.place).inspect(wanted.item, wanted.version)
            return SearchResult((offer,), (), 1), {offer: wanted}
        found = self.search(text, limit)
        return found, {
            offer: SkillReference(self.sources.source(offer.source), offer.item) for offer in found.offers
        }

    def _search_place(self, place: SourcePlace, query: str, limit: int) -> tuple[SkillOffer, ...] | HubError:
        try:
            return self.sources.open(place).search(query, limit)
        except HubError as error:
            return type(error)(f"{place.name}: {error}")

    def reference(self, text: str, version: str = "") -> SkillReference:
        """Return a reference to the skill with an identifier or a name."""
        found = self.sources.reference(text)
        if found is None:
            hits = [offer for offer in self.search(text, 50).offers if offer.name == text]
            if not hits:
                raise HubMissingError(
                    f"No source has a skill {brief(text)!r}; search with `hermes skills search`, "
                    "or write a folder as ./NAME."
                )
            if len(hits) > 1:
                names = ", ".join(f"{hit.source}:{hit.item}" for hit in hits[:8])
                raise HubMissingError(f"Several sources have a skill {brief(text)!r}; name one: {names}.")
            found = SkillReference(self.sources.source(hits[0].source), hits[0].item)
        return SkillReference(found.place, found.item, version or found.version)

    @contextmanager
    def candidate(self, text: str, version: str = "", *, force: bool = False) -> Iterator[Candidate]:
        """Fetch and scan a skill in quarantine. `force` widens the limits of a trusted source."""
        with self.examine(self.reference(text, version), force=force) as found:
            yield found

    @contextmanager
    def snapshot_candidate(self, row: SnapshotRow, *, force: bool = False) -> Iterator[Candidate]:
        """Fetch a skill of a snapshot into quarantine. Fails if it no longer has the recorded digest."""
        wanted = SkillReference(SourcePlace(row.source, row.kind, row.url), row.item, row.version)
        if row.kind in ("folder", "well-known"):  # their versions are digests, which cannot be asked for
            wanted = replace(wanted, version="")
        with self.examine(wanted, force=force) as found:
            if tree_digest(found.delivered) != row.digest or found.name != row.name:
                raise HubRefusedError(f"{row.name} is no longer what the list says; install it by itself.")
            yield found

    @contextmanager
    def examine(self, wanted: SkillReference, *, force: bool = False) -> Iterator[Candidate]:
        """Fetch and scan a skill of a source in quarantine."""
        source = self.sources.open(wanted.place)
        limits = STRICT
        if force and wanted.place.kind in ("github", "marketplace", "folder"):
            origin = source.inspect(wanted.item, wanted.version).origin
            limits = WIDE if origin and trust_of(origin) in ("builtin", "trusted") else STRICT
        try:
            fetched = source.fetch(wanted.item, wanted.version, limits)
        except HubLimitError as error:
            if limits == STRICT and trust_of(wanted.place.url) == "trusted":
                raise HubRefusedError(f"{error} For this trusted source --force widens the limits.") from None
            raise
        with quarantined(
            self.home, wanted.place, wanted.item, fetched, bundled=self.sources.bundled
        ) as candidate:
            yield candidate

    @contextmanager
    def update(
        self, row: LockedSkill, version: str = "", *, side: Side | None = None, force: bool = False
    ) -> Iterator[UpdatePlan]:
        """Fetch the newest version into quarantine, merged with the installed files.

        Raises `HubRefusedError` for an installed skill with unapproved changes. With `side` set to `theirs`
        these changes are discarded instead.
        """
        place = SourcePlace(row.source, row.kind, row.url)
        source = self.sources.open(place)
        folder = self.installed.lock.place(row)
        present = bundle.read_files(folder) if folder.is_dir() else ()
        fetched = source.fetch(row.item, version, limits_of(row.trust, present, force=force))
        if present and side != "theirs" and tree_digest(hashes_of(present)) != row.approved:
            raise HubRefusedError(
                f"{row.name} was changed since it was installed; look at it with `hermes skills audit`, "
                "then approve it there, or give --theirs to drop the changes."
            )
        base = hashes_of(present) if side == "theirs" else dict(row.files) if present else {}
        merge = merged(base, present, fetched.files, side)
        version = fetched.offer.version
        if not merge.conflicts and all(change.what == "kept" for change in merge.changes):
            yield UpdatePlan(row, version, None, merge.changes)
            return
        if merge.conflicts:
            yield UpdatePlan(row, version, None, merge.changes, merge.conflicts)
            return
        with quarantined(
            self.home,
            place,
            row.item,
            replace(fetched, files=merge.files),
            delivered=hashes_of(fetched.files),
            bundled=self.sources.bundled,
        ) as candidate:
            if candidate.name != row.name:
                raise HubRefusedError(
                    f"The new version of {row.name} calls itself {candidate.name}; "
                    "remove the old one and install the new one if you want it."
                )
            yield UpdatePlan(row, version, candidate, merge.changes)

    def audit(self, names: tuple[str, ...] = ()) -> tuple[AuditedSkill, ...]:
        """Return the state of the installed skills: of those in `names`, or of all."""
        rows = self.installed.all()
        chosen = (
            [self.installed.get(name) for name in names] if names else [rows[key] for key in sorted(rows)]
        )
        return tuple(self._audit_skill(row) for row in chosen)

    def _audit_skill(self, row: LockedSkill) -> AuditedSkill:
        folder = self.installed.lock.place(row)
        nothing = SkillScan(())
        if not folder.is_dir():
            return AuditedSkill(row, "missing", {}, nothing)
        try:
            digest = tree_digest(bundle.hashes(folder))
            changes = self.installed.changes(row)
        except HubError as error:
            return AuditedSkill(row, "unreadable", {}, nothing, problem=str(error))
        state: AuditState = "ok" if digest == row.approved else "changed"
        return AuditedSkill(row, state, changes, self.installed.scan(row), digest)


def limits_of(trust: Trust, present: Sequence[SkillFile], *, force: bool) -> Limits:
    """Return the size limits of a new version.

    They are wider for a trusted source if `force` is set or the installed files already exceed the strict
    ones.
    """
    if trust not in ("builtin", "trusted"):
        return STRICT
    try:
        checked(present or _NOTHING)
    except HubLimitError:
        return WIDE
    return WIDE if force else STRICT


def open_hub(home: Home, settings: Settings, environ: Mapping[str, str], base: Path) -> SkillHub:
    """Open the hub as configured; relative paths count from `base`."""
    places = tuple(
        SourcePlace(name, each.kind, each.url, environ.get(each.token_env, "") if each.token_env else "")
        for name, each in settings.skills.sources.items()
    )
    return SkillHub(home, SkillSources(base, places, environ))


def _mix_offers(offers: list[SkillOffer], query: str) -> list[SkillOffer]:
    """Return the offers of several sources in mixed order.

    Exact name matches come first, then the first offer of each source, the second of each, and so on.
    """
    ranks: dict[str, int] = {}
    ranked: list[tuple[bool, int, int, SkillOffer]] = []
    for index, offer in enumerate(offers):
        rank = ranks[offer.source] = ranks.get(offer.source, -1) + 1
        ranked.append((offer.name.casefold() != query.strip().casefold(), rank, index, offer))
    return [each[-1] for each in sorted(ranked, key=lambda each: each[:3])]
