"""Skills that a project brings: used only as long as every byte of them is as it was trusted.

A skill is text that a model follows and scripts that it runs, so a change by a pull,
by the agent or by anybody else ends the trust until a person gives it again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent.core.config import trust
from agent.core.home import Home
from agent.knowledge.skills.discover import PROJECT_FOLDERS, SkillRoot
from tools.kit.files import read_bytes

MOST_FILES = 5_000
"""Files of all skills of a project."""
MOST_BYTES = 50_000_000
"""Bytes of all skills of a project together."""

ProjectState = Literal["none", "trusted", "untrusted", "too_much"]


@dataclass(frozen=True, slots=True)
class ProjectSkills:
    """What a project brings, read once."""

    root: Path
    """The root of the project, resolved."""
    folders: tuple[Path, ...]
    """Those that hold skills."""
    digest: str
    """SHA-256 over names and contents of all files; empty if they cannot be read."""
    problem: str = ""
    """Why they cannot be used, in a sentence."""

    def roots(self) -> tuple[SkillRoot, ...]:
        """Where they are looked for."""
        return tuple(SkillRoot(each, "project") for each in self.folders)


class _TooMuchError(Exception):
    """There is more than would be read before each session."""


def read_project_skills(home: Home, workspace: Path) -> ProjectSkills | None:
    """The skills of the project around `workspace`; None when it brings none. Touches the disk."""
    root = trust.project_root(workspace)
    own = {os.path.realpath(home.skills), os.path.realpath(_user() / ".agents" / "skills")}
    folders = tuple(
        path
        for name in PROJECT_FOLDERS
        if (path := root / name / "skills").is_dir() and os.path.realpath(path) not in own
    )
    if not folders:
        return None
    total = hashlib.sha256()
    try:
        for path, content in _contents(root, folders):
            name = path.relative_to(root).as_posix()
            head = f"{name}\0{len(content)}\0"
            total.update(head.encode("utf-8", "surrogateescape") + content)
    except _TooMuchError:
        most = f"{MOST_FILES:,} files or {MOST_BYTES // 1_000_000} MB"
        return ProjectSkills(root, folders, "", f"The skills of this project have more than {most}.")
    return ProjectSkills(root, folders, total.hexdigest())


def state_of(home: Home, project: ProjectSkills | None) -> ProjectState:
    """Whether these skills may be used."""
    if project is None:
        return "none"
    if not project.digest:
        return "too_much"
    known = trust.trusted_digest(home, project.root, "skills")
    return "trusted" if known == project.digest else "untrusted"


def trust_skills(home: Home, project: ProjectSkills) -> None:
    """Use exactly these skills from now on. Raises `ConfigError`."""
    if project.digest:
        trust.trust_digest(home, project.root, project.digest, "skills")


def _contents(root: Path, folders: tuple[Path, ...]) -> Iterator[tuple[Path, bytes]]:
    """Every file below the folders with what stands for it, in order. Raises `_TooMuchError`.

    Links to folders, and what cannot be read or leads out of the project, is not used either, so only
    the fact counts.
    """
    total = 0
    for files, path in enumerate(_walk(folders), 1):
        real = Path(os.path.realpath(path))
        try:
            if not real.is_relative_to(root) or real.is_dir():
                content = b"link to " + os.fsencode(real)
            else:
                content = read_bytes(real, MOST_BYTES)[0]
        except OSError as error:
            content = f"unreadable: {error.errno}".encode()
        total += len(content)
        if files > MOST_FILES or total > MOST_BYTES:
            raise _TooMuchError
        yield path, content


def _walk(folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in folders:
        for parent, below, files in os.walk(folder):
            below.sort()
            links = [name for name in below if Path(parent, name).is_symlink()]
            yield from (Path(parent, name) for name in sorted([*files, *links]))


def _user() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")
