"""All operations on skills from outside, for one home."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent.core.home import PRIVATE_FILE, PRIVATE_FOLDER, Home
from agent.knowledge.skills.catalog import SkillIndex, SkillRoot
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
from agent.knowledge.skills.hub.lock import LockedSkill, LockFile, SnapshotRow, locked_skill
from agent.knowledge.skills.hub.opening import (
    Candidate,
    SkillReference,
    SkillSources,
    SourcePlace,
    quarantine_skill,
)
from agent.knowledge.skills.scanner import SkillScan, scan_folder
from agent.knowledge.skills.skill import Trust, decide, trust_of
from tools.files.diffs import diff_texts, shorten_diff
from tools.kit.files import read_plain, write_atomically
from tools.text.safe_text import clean
from tools.text.words import brief

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

CATEGORY = "installed"
"""The folder for installed skills, unless another is named."""
KEPT_REMOVED = 20
"""The number of removed skills that are kept and can be restored."""

_CATEGORY = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Removed:
    """A removed skill that can be restored."""

    name: str
    time: str
    """The time of removal, as `YYYYMMDDTHHMMSSZ`."""
    folder: Path
    """The folder that holds it now."""
    target: str
    """Its earlier folder, relative to the skills of the home."""
    row: LockedSkill | None
    """Its row of the lock file; None for a skill that was not installed from outside."""


class InstalledSkills:
    """The skills of one home that were installed from outside, and the operations on them."""

    def __init__(self, home: Home) -> None:
        self.lock = LockFile(home)
        self._trash = self.lock.folder / "removed"

    def all(self) -> dict[str, LockedSkill]:
        """Return the installed skills by name. Raises `LockFileError`."""
        return self.lock.read()

    def get(self, name: str) -> LockedSkill:
        """Return one installed skill. Raises `HubError`."""
        rows = self.all()
        if name not in rows:
            raise HubError(f"No skill {brief(name)!r} was installed from elsewhere; {_name_installed(rows)}.")
        return rows[name]

    def install(self, candidate: Candidate, *, category: str = "", force: bool = False) -> LockedSkill:
        """Move a candidate out of quarantine into the home; return its row of the lock file.

        Raises `HubError`, and then nothing has changed.
        """
        if not _CATEGORY.fullmatch(category or CATEGORY):
            raise HubError(
                f"{brief(category)!r} is not a name for a folder of skills; use a-z, 0-9, _ and -."
            )
        require_allowed(candidate, force=force)
        with self.lock.hold():
            rows = self.all()
            self.check_free(candidate, rows)
            row = _row(candidate, f"{category or CATEGORY}/{candidate.name}")
            target = self.lock.place(row)
            if os.path.lexists(target):
                raise HubError(f"There is something at {target} already; move it away first.")
            # The row comes first, because a folder without one would count as the user's own.
            self.lock.write(rows | {row.name: row})
            try:
                self._move(candidate.skill.folder, target)
            except OSError as error:
                self.lock.write(rows)
                raise HubError(f"{target} cannot be written: {error.strerror or error}.") from None
            return row

    def check_free(self, candidate: Candidate, rows: Mapping[str, LockedSkill]) -> None:
        """Raise `HubError` if the home already has a skill with that name."""
        known = rows.get(candidate.name)
        if known is not None and os.path.lexists(self.lock.place(known)):
            raise HubError(
                f"{candidate.name} is installed already, from {brief(known.url)}; "
                f"see `hermes skills update {candidate.name}` and `remove`."
            )
        own = self._own(candidate.name)
        if own is not None:
            raise HubError(
                f"You have a skill {candidate.name} of your own at {own}; "
                "rename or remove it before you install another of that name."
            )

    def replace(self, row: LockedSkill, candidate: Candidate, *, force: bool = False) -> LockedSkill:
        """Replace the installed version by one in quarantine; return the new row. Raises `HubError`."""
        require_allowed(candidate, force=force)
        with self.lock.hold():
            rows = self.all()
            if rows.get(row.name) != row:
                raise HubError(f"{row.name} was changed by somebody else meanwhile; try again.")
            target = self.lock.place(row)
            new = _row(candidate, row.folder)
            self.lock.write(rows | {row.name: new})
            try:
                aside = self._aside(row.name, row, target) if os.path.lexists(target) else None
                try:
                    self._move(candidate.skill.folder, target)
                except OSError:
                    if aside is not None:
                        (aside / "skill").rename(target)
                        shutil.rmtree(aside, ignore_errors=True)
                    raise
            except OSError as error:
                self.lock.write(rows)
                raise HubError(f"{target} cannot be written: {error.strerror or error}.") from None
            return new

    def scan(self, row: LockedSkill) -> SkillScan:
        """Scan the installed files again and return the result."""
        return scan_folder(self.lock.place(row), outside=row.trust in ("trusted", "community"))

    def changes(self, row: LockedSkill) -> dict[str, str]:
        """Return the files that differ from the delivered ones: `added`, `removed` or `changed` by path.

        Raises `HubError` for a folder that cannot be read.
        """
        found = bundle.hashes(self.lock.place(row))
        named = {
            path: "changed" for path in found.keys() & row.files.keys() if found[path] != row.files[path]
        }
        named |= dict.fromkeys(found.keys() - row.files.keys(), "added")
        named |= dict.fromkeys(row.files.keys() - found.keys(), "removed")
        return {path: named[path] for path in sorted(named)}

    def approve(self, row: LockedSkill, seen: str, *, force: bool = False) -> LockedSkill:
        """Approve the files of a skill that the user saw, with the digest `seen`; return the new row.

        Raises `HubRefusedError` if the scan forbids it, and `HubError` if the files have changed since.
        """
        with self.lock.hold():
            rows = self.all()
            folder = self.lock.place(row)
            found = bundle.hashes(folder)
            if tree_digest(found) != seen or rows.get(row.name) != row:
                raise HubError(f"{row.name} changed while you looked at it; look again.")
            if bundle.NOT_PLAIN in found.values():
                raise HubRefusedError(f"{row.name} holds a link or a device, which cannot be approved.")
            verdict = self.scan(row).verdict
            if decide(row.trust, verdict, force=force) != "yes":
                raise refusal(row.name, row.trust, verdict)
            new = replace(row, approved=seen, verdict=verdict)
            self.lock.write(rows | {row.name: new})
            return new

    def where(self, name: str) -> Path:
        """Return the folder of any skill in the home. Raises `HubError`."""
        rows = self.all()
        row = rows.get(name)
        folder = self.lock.place(row) if row is not None else self._own(name)
        if folder is None:
            raise HubError(f"There is no skill {brief(name)!r} in your home; {_name_installed(rows)}.")
        return folder

    def remove(self, name: str) -> Removed:
        """Move a skill of the home to the removed skills and return it. Raises `HubError`."""
        with self.lock.hold():
            folder = self.where(name)
            rows = self.all()
            row = rows.get(name)
            try:
                aside = self._aside(name, row, folder) if os.path.lexists(folder) else None
            except OSError as error:
                raise HubError(f"{folder} cannot be moved away: {error.strerror or error}.") from None
            if row is not None:
                self.lock.write({key: value for key, value in rows.items() if key != name})
            self._tidy()
            if aside is None:
                target = row.folder if row is not None else name
                return Removed(name, "", folder, target, row)
            return _removed(aside) or Removed(name, "", aside, name, row)

    def removed(self) -> tuple[Removed, ...]:
        """Return the removed skills that can be restored, newest first."""
        try:
            folders = sorted(self._trash.iterdir(), reverse=True)
        except OSError:
            return ()
        return tuple(found for folder in folders if (found := _removed(folder)) is not None)

    def restore(self, name: str) -> Removed:
        """Restore the skill removed last under that name and return it. Raises `HubError`."""
        with self.lock.hold():
            found = next((each for each in self.removed() if each.name == name), None)
            if found is None:
                raise HubError(f"No removed skill {brief(name)!r} is kept.")
            rows = self.all()
            target = self.lock.skills / found.target
            if os.path.lexists(target) or name in rows or self._own(name) is not None:
                raise HubError(f"There is a skill {name} in your home; remove it first.")
            if found.row is not None:
                self.lock.write(rows | {name: found.row})
            try:
                self._move(found.folder / "skill", target)
            except OSError as error:
                self.lock.write(rows)
                raise HubError(f"{target} cannot be written: {error.strerror or error}.") from None
            shutil.rmtree(found.folder, ignore_errors=True)
            return found

    def _own(self, name: str) -> Path | None:
        """Return the folder of a skill with that name in the home, whatever its origin; None without one."""
        known = SkillIndex().find([SkillRoot(self.lock.skills, "user")])
        everything = (*known.skills, *known.shadowed)
        return next((skill.folder for skill in everything if skill.name == name), None)

    def _move(self, source: Path, target: Path) -> None:
        target.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        source.rename(target)

    def _aside(self, name: str, row: LockedSkill | None, folder: Path) -> Path:
        """Move a skill's folder to the removed skills, with the data to restore it. Raises `OSError`."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        aside = self._trash / f"{stamp}-{name}"
        aside.mkdir(mode=PRIVATE_FOLDER, parents=True)
        about = {
            "name": name,
            "time": stamp,
            "target": folder.relative_to(self.lock.skills).as_posix(),
            "row": asdict(row) if row is not None else None,
        }
        write_atomically(aside / "about.json", json.dumps(about).encode(), PRIVATE_FILE)
        folder.rename(aside / "skill")
        return aside

    def _tidy(self) -> None:
        for old in self.removed()[KEPT_REMOVED:]:
            shutil.rmtree(old.folder, ignore_errors=True)


def require_allowed(candidate: Candidate, *, force: bool) -> None:
    """Raise `HubRefusedError` if the scan's findings are too severe for the trust in the skill."""
    if candidate.decision(force=force) == "no":
        raise refusal(candidate.name, candidate.trust, candidate.scan.verdict)


def refusal(name: str, trust: str, verdict: str) -> HubRefusedError:
    """Return the error for a refused skill, with a sentence on what the user can do."""
    mend = (
        "nothing lifts that"
        if verdict == "dangerous"
        else "look at what was found, and give --force if it is harmless"
    )
    return HubRefusedError(f"{name} is {verdict}, and its source counts as {trust}: it is not taken; {mend}.")


def _row(candidate: Candidate, folder: str) -> LockedSkill:
    return LockedSkill(
        name=candidate.name,
        folder=folder,
        source=candidate.place.name,
        kind=candidate.place.kind,
        url=candidate.place.url,
        item=candidate.item,
        version=candidate.fetched.offer.version,
        trust=candidate.trust,
        verdict=candidate.scan.verdict,
        files=dict(candidate.delivered),
        approved=tree_digest(candidate.hashes),
        installed=time.time(),
    )


def _removed(folder: Path) -> Removed | None:
    try:
        about = json.loads(read_plain(folder / "about.json"))
        row = locked_skill(about["row"]) if about["row"] is not None else None
        target = str(about["target"])
        if not (folder / "skill").is_dir() or ".." in target.split("/") or target.startswith("/"):
            return None
        return Removed(str(about["name"]), str(about["time"]), folder, target, row)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _name_installed(rows: Mapping[str, LockedSkill]) -> str:
    return f"installed are {', '.join(sorted(rows))}" if rows else "nothing is installed from elsewhere"


Side = Literal["mine", "theirs"]
"""Whose version is kept if the user and the source both changed a file."""
_DIFF_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class SkillFileChange:
    """The effect of an update on one file."""

    path: str
    what: Literal["added", "removed", "changed", "kept"]
    """The kind of change; `kept`: the user's edit stays."""
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Merge:
    """Installed files merged with a newer version."""

    files: tuple[SkillFile, ...]
    changes: tuple[SkillFileChange, ...]
    conflicts: tuple[str, ...]
    """Undecided paths that the user and the source both changed."""


def merged(
    base: Mapping[str, str],
    installed: Iterable[SkillFile],
    newer: Iterable[SkillFile],
    side: Side | None = None,
) -> Merge:
    """Merge a newer version with the installed files; `base` are the hashes of the earlier version. Pure."""
    mine = {file.path: file for file in installed}
    theirs = {file.path: file for file in newer}
    files: list[SkillFile] = []
    changes: list[SkillFileChange] = []
    conflicts: list[str] = []
    for path in sorted(mine.keys() | theirs.keys()):
        own, new, old = mine.get(path), theirs.get(path), base.get(path)
        if _hash(own) == old or _hash(own) == _hash(new):
            chosen = new
        elif _hash(new) == old:
            chosen = own
        elif side is None:
            conflicts.append(path)
            chosen = own
        else:
            chosen = own if side == "mine" else new
        if chosen is not None:
            files.append(chosen)
        change = _change(path, own, chosen, new)
        if change is not None:
            changes.append(change)
    return Merge(tuple(files), tuple(changes), tuple(conflicts))


def _hash(file: SkillFile | None) -> str | None:
    return hashlib.sha256(file.content).hexdigest() if file is not None else None


def _change(
    path: str, own: SkillFile | None, chosen: SkillFile | None, new: SkillFile | None
) -> SkillFileChange | None:
    if _hash(own) == _hash(chosen):
        return SkillFileChange(path, "kept") if _hash(chosen) != _hash(new) else None
    what: Literal["added", "removed", "changed"] = (
        "added" if own is None else "removed" if chosen is None else "changed"
    )
    return SkillFileChange(path, what, difference(path, own, chosen))


def difference(path: str, old: SkillFile | None, new: SkillFile | None) -> str:
    """Return the diff of a file between two versions, as clean text; a sentence if a version is not text."""
    names = [f"{side}/{path}" if file is not None else "/dev/null" for side, file in (("a", old), ("b", new))]
    try:
        texts = [file.content.decode("utf-8") if file is not None else "" for file in (old, new)]
    except UnicodeDecodeError:
        return f"{clean(path)} is not text.\n"
    return shorten_diff(clean(diff_texts(texts[0], texts[1], names[0], names[1]).text), _DIFF_CHARS)


_NOTHING = (SkillFile("SKILL.md", b""),)
AuditState = Literal["ok", "changed", "missing", "unreadable"]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The skills found, and the sources that failed, with the reasons."""

    offers: tuple[SkillOffer, ...]
    problems: tuple[str, ...]
    asked: int
    """The number of sources that were searched."""


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
    """The result of comparing an installed skill with its approved files."""

    row: LockedSkill
    state: AuditState
    changes: dict[str, str]
    """Files that differ from the delivery, and how."""
    scan: SkillScan
    digest: str = ""
    """The digest of the current files, for `approve`."""
    problem: str = ""


class SkillHub:
    """Search, fetching, installing, audit. Every method may use network and disk, and raise `HubError`."""

    def __init__(self, home: Home, sources: SkillSources) -> None:
        self.home = home
        self.sources = sources
        self.installed = InstalledSkills(home)

    def search(self, query: str, limit: int = 20, source: str = "") -> SearchResult:
        """Return matching skills of all sources, mixed, and the sources that failed. Raises if all failed."""
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
        """Return a reference to the skill with an identifier or a name. Raises `HubMissingError`."""
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
        """Fetch and scan a skill in quarantine, for this block. `force` widens limits of a trusted source."""
        with self.examine(self.reference(text, version), force=force) as found:
            yield found

    @contextmanager
    def snapshot_candidate(self, row: SnapshotRow, *, force: bool = False) -> Iterator[Candidate]:
        """Fetch a skill of a snapshot into quarantine. Raises `HubRefusedError` if its digest differs."""
        wanted = SkillReference(SourcePlace(row.source, row.kind, row.url), row.item, row.version)
        if row.kind in ("folder", "well-known"):  # their versions are digests, which cannot be asked for
            wanted = replace(wanted, version="")
        with self.examine(wanted, force=force) as found:
            if tree_digest(found.delivered) != row.digest or found.name != row.name:
                raise HubRefusedError(f"{row.name} is no longer what the list says; install it by itself.")
            yield found

    @contextmanager
    def examine(self, wanted: SkillReference, *, force: bool = False) -> Iterator[Candidate]:
        """Fetch a skill into quarantine for this block and scan it; `force` may widen limits."""
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
        with quarantine_skill(
            self.home, wanted.place, wanted.item, fetched, bundled=self.sources.bundled
        ) as candidate:
            yield candidate

    @contextmanager
    def update(
        self, row: LockedSkill, version: str = "", *, side: Side | None = None, force: bool = False
    ) -> Iterator[UpdatePlan]:
        """Fetch a version (by default the newest) into quarantine, merged with the installed files.

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
        with quarantine_skill(
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
    limits.
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
