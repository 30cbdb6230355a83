"""Originals of bundled skills that a person changed: the hash of each as it was copied.

A copy that is still as it was copied gives way to the bundled skill once an update of the program renews
that; one that was changed stays in force, and is named. The hashes lie in `skills/.hub/originals.json` of
the home; without them a copy is a skill of the person's own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agent.core.home import PRIVATE_FILE, Home, from_home, private_folder
from agent.knowledge.skills.discover import SkillSet
from agent.knowledge.skills.hub.bundle import tree_digest
from agent.knowledge.skills.hub.disk import hashes
from agent.knowledge.skills.hub.problems import HubError
from agent.knowledge.skills.skill import Skill
from tools.kit.files import read_plain, write_atomically

_LARGEST = 1_000_000


def digest_of(folder: Path) -> str:
    """One hash of all files of a skill; empty where one of them cannot be read."""
    try:
        found = hashes(folder)
    except HubError:
        return ""
    return tree_digest({path: each for path, each in found.items() if "__pycache__" not in path.split("/")})


class SkillOriginals:
    """What bundled skills were when they were copied. Every method touches the disk."""

    def __init__(self, home: Home) -> None:
        self._skills = home.skills
        self._path = home.skills / ".hub" / "originals.json"

    def remember(self, folder: Path, digest: str) -> None:
        """A copy of a bundled skill with this digest lies in `folder` from now on. Raises `OSError`."""
        known = {**self._read(), self._key(folder): digest}
        kept = {key: each for key, each in known.items() if (self._skills / key).is_dir()}
        private_folder(self._path.parent)
        write_atomically(self._path, json.dumps(kept, indent=1).encode(), PRIVATE_FILE)

    def settled(self, found: SkillSet) -> SkillSet:
        """The skills, where copies that nobody changed give way, and notes on those that were changed."""
        known = self._read()
        if not known:
            return found
        bundled = {each.name: each for each in found.shadowed if each.scope == "bundled"}
        skills, shadowed, notes = list(found.skills), list(found.shadowed), list(found.renewed)
        for at, skill in enumerate(found.skills):
            original = bundled.get(skill.name)
            if skill.scope != "user" or original is None or not (was := known.get(self._key(skill.folder))):
                continue
            if digest_of(original.folder) == was:
                continue
            if digest_of(skill.folder) == was:
                skills[at] = original
                shadowed[shadowed.index(original)] = skill
            else:
                notes.append(_note(skill))
        return replace(found, skills=tuple(skills), shadowed=tuple(shadowed), renewed=tuple(notes))

    def _key(self, folder: Path) -> str:
        try:
            return folder.relative_to(self._skills).as_posix()
        except ValueError:
            return ""

    def _read(self) -> Mapping[str, str]:
        try:
            told = json.loads(read_plain(self._path, _LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        found = told.items() if isinstance(told, dict) else ()
        return {key: each for key, each in found if key and isinstance(each, str)}


def _note(skill: Skill) -> str:
    return (
        f"The bundled skill {skill.name} has a new version; yours, which you changed, stays in force. "
        f"Delete {from_home(skill.folder)} to use the new one."
    )
