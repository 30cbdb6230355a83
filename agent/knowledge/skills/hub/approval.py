"""Checks that an installed skill is still what was approved: a changed byte switches it off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.core.home import Home
from agent.knowledge.skills.hub import disk
from agent.knowledge.skills.hub.bundle import tree_digest
from agent.knowledge.skills.hub.lock import LockedSkill, LockFile, LockFileError
from agent.knowledge.skills.hub.problems import HubError
from agent.knowledge.skills.skill import Skill
from tools.text.words import brief

MEND = "`hermes skills audit` shows it"


class SkillApprovals:
    """Asked at discovery about every skill; remembers what it hashed until a file changes."""

    def __init__(self, home: Home) -> None:
        self._lock = LockFile(home)
        self._stamp: tuple[tuple[int, int, int], ...] | None = None
        self._rows: Mapping[Path, LockedSkill] = {}
        self._broken = False
        self._known: dict[Path, tuple[disk.Signature, str]] = {}

    def doubt(self, skill: Skill) -> str:
        """Why a skill must not be used, in half a sentence; empty if it may. Touches the disk."""
        if skill.scope != "user" or not skill.folder.is_relative_to(self._lock.skills):
            return ""
        self._refresh()
        if self._broken:
            return f"the lock file of installed skills cannot be read; {MEND}"
        row = self._rows.get(skill.folder)
        if row is None:
            return ""
        try:
            found = self._digest(skill.folder)
        except HubError as error:
            return brief(str(error).rstrip("."), 200)
        return "" if found == row.approved else f"its files changed since it was installed; {MEND}"

    def _refresh(self) -> None:
        stamp = self._lock.stamp()
        if stamp == self._stamp:
            return
        try:
            self._rows = {self._lock.place(row): row for row in self._lock.read().values()}
            self._broken = False
        except LockFileError:
            self._broken = True
        self._stamp = stamp

    def _digest(self, folder: Path) -> str:
        signature = disk.signature(folder)
        known = self._known.get(folder)
        if known is None or known[0] != signature:
            known = (signature, tree_digest(disk.hashes(folder)))
            self._known[folder] = known
        return known[1]
