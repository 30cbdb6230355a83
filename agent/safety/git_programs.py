"""Tells whether a repository names programs that git runs while it only reads, without running git."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agent.safety.path_cache import current
from agent.workspace.repository import common_folder, git_folder
from tools.kit.files import read_bytes

_MAX_BYTES = 1_000_000
_MAX_MODULES = 200
_HEADER = re.compile(r'\s*\[\s*([\w-]+)[\w.-]*(?:\s+"(?:[^"\\]|\\.)*")?\s*\]')
_ENTRY = re.compile(r"\s*([A-Za-z][\w-]*)\s*(?:=\s*(.*))?")
_PLAIN = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1", "cat"})
_OF_GIT = re.compile(r'"?git[ -]lfs\b')
_RUNNING = {
    "core": ("fsmonitor", "hookspath", "pager"),
    "diff": ("external", "command", "textconv"),
    "filter": ("clean", "smudge", "process"),
    "include": ("path",),
    "includeif": ("path",),
    "gpg": ("program", "defaultkeycommand"),
    "remote": ("uploadpack", "vcs"),
}


def names_programs(folder: str) -> bool:
    """Whether git, started in `folder` to read, would run what the repository around it names.

    Blocking, never waits; in doubt it is True, outside of a repository False. Found out once for a decision.
    """
    return current().once((names_programs, folder), lambda: _names_programs(folder))


def _names_programs(folder: str) -> bool:
    git = _repository(Path(folder))
    if git is None:
        return False
    common = common_folder(git)
    if common == git and _leads_elsewhere(git):
        return True
    if os.path.lexists(common / "hooks" / "post-index-change"):
        return True
    files = [common / "config", git / "config.worktree", *_modules(common)]
    return any(file_names_programs(file) for file in files)


def _leads_elsewhere(git: Path) -> bool:
    """Whether git would read other settings than those beside the repository."""
    try:
        line = os.fsdecode(read_bytes(git / "commondir", _MAX_BYTES)[0]).strip()
        return (git / line).resolve() != git.resolve()
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RuntimeError):
        return True


def _repository(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        if os.path.lexists(place / ".git"):
            return git_folder(place)
        if all(os.path.lexists(place / name) for name in ("HEAD", "objects", "refs")):
            return place
    return None


def _modules(common: Path) -> Iterator[Path]:
    """The settings of submodules, which git reads too when it asks for their state."""
    return islice((common / "modules").rglob("config"), _MAX_MODULES)


def file_names_programs(file: Path) -> bool:
    """Whether settings of git name programs that it runs while it only reads; in doubt True. Blocking."""
    try:
        text = read_bytes(file.resolve(), _MAX_BYTES)[0].decode("utf-8", "replace").lstrip("\ufeff")
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RuntimeError):
        return True
    section = ""
    for line in text.lower().split("\n"):
        if line.lstrip().startswith("["):
            header = _HEADER.match(line)
            if header is None:
                return True
            section, line = header[1], line[header.end() :]
        if (entry := _ENTRY.match(line)) and _runs(section, entry[1], (entry[2] or "").strip()):
            return True
    return False


def _runs(section: str, key: str, value: str) -> bool:
    if section == "pager" or key in _RUNNING.get(section, ()):
        return value not in _PLAIN and not (section == "filter" and _OF_GIT.match(value))
    return section == "remote" and key == "url" and value.lstrip('"').startswith("ext::")
