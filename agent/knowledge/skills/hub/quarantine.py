"""A fetched skill in quarantine: written to a folder that nothing reads from, scanned and judged."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.core.home import Home
from agent.knowledge.skills.discover import BUNDLED
from agent.knowledge.skills.frontmatter import SkillFormatError, loadable_name, read, validate
from agent.knowledge.skills.hub import disk
from agent.knowledge.skills.hub.bundle import hashes_of, skill_text
from agent.knowledge.skills.hub.opening import SourcePlace
from agent.knowledge.skills.hub.problems import HubRefusedError
from agent.knowledge.skills.hub.source import FetchedSkill
from agent.knowledge.skills.scanner import SkillScan, scan_folder
from agent.knowledge.skills.skill import Skill, load
from agent.knowledge.skills.trust import Decision, Trust, decide, trust_of
from agent.model.addresses import is_loopback
from tools.text.words import brief

_STALE = 24 * 3600
"""Seconds after which what a killed process left is cleared away."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill that could be installed, and what is known of it."""

    place: SourcePlace
    item: str
    """How the source was asked for it."""
    fetched: FetchedSkill
    skill: Skill
    """As it was read from quarantine."""
    hashes: dict[str, str]
    """SHA-256 of what lies in quarantine, by path."""
    delivered: dict[str, str]
    """SHA-256 of what the source delivered: the same, unless edits of the person were kept."""
    trust: Trust
    scan: SkillScan
    notes: tuple[str, ...]
    """What a person should know beside the findings, a sentence each."""

    @property
    def name(self) -> str:
        """What the skill calls itself."""
        return self.skill.name

    def decision(self, *, force: bool = False) -> Decision:
        """Whether it may be installed."""
        return decide(self.trust, self.scan.verdict, force=force)


@contextmanager
def quarantined(
    home: Home,
    place: SourcePlace,
    item: str,
    fetched: FetchedSkill,
    *,
    delivered: Mapping[str, str] | None = None,
    bundled: Path = BUNDLED,
) -> Iterator[Candidate]:
    """The skill in quarantine; its folder is gone afterwards, unless it was moved away.

    `delivered` are the hashes of what the source delivered, where `fetched` holds edits too.
    Raises `HubError`.
    """
    room = home.root / "skills" / ".quarantine"
    _clear(room)
    box = room / secrets.token_hex(8)
    name = _name(fetched)
    folder = box / name
    try:
        disk.write_files(folder, fetched.files)
        trust = trust_of(fetched.offer.origin) if fetched.offer.origin else "community"
        scan = scan_folder(folder, outside=trust in ("trusted", "community"))
        try:
            skill = load(folder, "user")
        except SkillFormatError as error:
            raise HubRefusedError(f"What was delivered is no skill: {brief(error, 200)}.") from None
        notes = (*fetched.offer.notes, *fetched.notes, *_notes(fetched, skill, bundled))
        found = hashes_of(fetched.files)
        told = tuple(dict.fromkeys(notes))
        yield Candidate(place, item, fetched, skill, found, dict(delivered or found), trust, scan, told)
    finally:
        shutil.rmtree(box, ignore_errors=True)


def _name(fetched: FetchedSkill) -> str:
    """What the SKILL.md calls the skill. Raises `HubRefusedError`."""
    try:
        name = str(read(skill_text(fetched.files)).fields["name"]).strip()
    except SkillFormatError as error:
        raise HubRefusedError(f"What was delivered is no skill: {brief(error, 200)}.") from None
    if not loadable_name(name) or name.endswith("."):
        raise HubRefusedError(f"The skill calls itself {brief(name)!r}, which is no name for a skill.")
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
