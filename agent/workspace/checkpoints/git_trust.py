"""Tells whether files hold exactly the bytes that git keeps of them, without reading any.

Git changes bytes on their way out where attributes or settings ask for it: line
ends, keywords, encodings, filters. Where nothing of the kind can be in play, a
file that git has not seen change since it took it in has the bytes of its object.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from agent.workspace.checkpoints.git_index import Index
from agent.workspace.repository import common_folder
from tools.kit.files import read_bytes

_CHANGERS = (b"autocrlf", b"eol", b"attributesfile", b"include", b"safecrlf", b"worktreeconfig")
_ATTRIBUTES = ".gitattributes"
_MAX_BYTES = 1_000_000


def bytes_are_gits(root: Path, index: Index, paths: Iterable[str]) -> bool:
    """Whether no file below `root` can have been changed on its way out. `paths`: all there are.

    Blocking; never raises. In doubt it is False, which costs time and nothing else.
    """
    if index.top is None or index.git is None:
        return False
    if any(path.endswith(_ATTRIBUTES) for names in (paths, index.files) for path in names):
        return False
    above = [folder for folder in (root, *root.parents) if index.top in (folder, *folder.parents)]
    attributes = [*(folder / _ATTRIBUTES for folder in above), *_attribute_files(index.git)]
    if any(os.path.lexists(file) for file in attributes):
        return False
    return not any(_changes_bytes(file) for file in _settings(index.git))


def _attribute_files(git: Path) -> list[Path]:
    return [
        *(folder / "info" / "attributes" for folder in (git, common_folder(git))),
        *(folder / "git" / "attributes" for folder in _personal()),
        Path("/etc/gitattributes"),
    ]


def _settings(git: Path) -> list[Path]:
    home = os.environ.get("HOME", "")
    return [
        common_folder(git) / "config",
        git / "config.worktree",
        *(folder / "git" / "config" for folder in _personal()),
        *([Path(home) / ".gitconfig"] if home else []),
        Path(os.environ.get("GIT_CONFIG_GLOBAL") or "/etc/gitconfig"),
        Path("/etc/gitconfig"),
    ]


def _personal() -> list[Path]:
    """Where a person's settings may lie."""
    home = os.environ.get("HOME", "")
    places = (os.environ.get("XDG_CONFIG_HOME", ""), f"{home}/.config" if home else "")
    return [Path(place) for place in places if place]


def _changes_bytes(file: Path) -> bool:
    try:
        text = read_bytes(file.resolve(), _MAX_BYTES)[0].lower()
    except FileNotFoundError:
        return False
    except (OSError, RuntimeError):
        return True
    return any(word in text for word in _CHANGERS)
