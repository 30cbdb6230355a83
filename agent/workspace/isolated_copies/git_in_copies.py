"""Git in a copy: it works there, without effect on the repository of the workspace.

If disk blocks cannot be shared, objects are: git reads those of the original and writes new ones to the copy.
Work trees outside of the workspace are left out. The copied settings name the copy as the work tree.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.kit.files import read_bytes

LINKED = "leads to a repository elsewhere"
OF_WORKTREES = frozenset({"commondir", "gitdir", "locked"})
"""Files that link a work tree to a repository elsewhere."""

_MAX_BYTES = 65_536
_CONFIG_BYTES = 4_000_000
_TREE = re.compile(rb"^[^#;\n]*?\bworktree[ \t]*=[ \t]*(.*?)[ \t\r]*$", re.IGNORECASE | re.MULTILINE)
_SETTINGS = b"\n[core]\n\tfsmonitor = false\n\ttrustctime = false\n\tcheckStat = minimal\n"
"""Settings for a copy, in which inodes and change times differ from the index."""


def is_folder_of_git(folder: int) -> bool:
    """Return whether the open folder has the content of a usual `.git` folder."""
    try:
        head = os.stat("HEAD", dir_fd=folder, follow_symlinks=False)
        objects = os.stat("objects", dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return not stat.S_ISDIR(head.st_mode) and stat.S_ISDIR(objects.st_mode)


def stays_behind(name: str, status: os.stat_result, folder: int) -> bool:
    """Return whether an entry of a folder within `.git` must not be copied."""
    if stat.S_ISSOCK(status.st_mode) or stat.S_ISFIFO(status.st_mode):
        return True
    candidate = name in ("commondir", "gitdir", "gc.pid") or name.endswith(".lock")
    return candidate and is_folder_of_git(folder)


def borrow(source: Path, target: Path) -> None:
    """Make the new object folder `target` use the objects of `source`. Raises `OSError`."""
    (target / "pack").mkdir(0o755)
    (target / "info").mkdir(0o755)
    name = os.fsencode(source)
    if name.startswith(b'"') or b"\n" in name:
        name = b'"' + name.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
    (target / "info" / "alternates").write_bytes(name + b"\n")
    target.chmod(0o755)


def copy_pointer(source: Path, target: Path, path: str) -> str:
    """Copy a `.git` file and return '' if the repository that it names is copied too; else return why not."""
    leads = _leads(source / path)
    if leads is None:
        return LINKED
    place = Path(os.path.normpath((source / path).parent / os.fsdecode(leads)))
    try:
        inside = place.is_relative_to(source) and place.resolve() == place
    except (OSError, RuntimeError):
        inside = False
    if not inside:
        return LINKED
    if leads.startswith(b"/"):
        leads = os.fsencode(target / place.relative_to(source))
    (target / path).write_bytes(b"gitdir: " + leads + b"\n")
    return ""


def worktree_of(root: Path) -> tuple[Path, Path] | None:
    """Return the git folder of the linked work tree `root` and that of its repository; None unless they point
    back to `root`.
    """
    marker = root / ".git"
    leads = _leads(marker)
    if leads is None:
        return None
    try:
        own = (root / os.fsdecode(leads)).resolve(strict=True)
        back = (own / os.fsdecode(_line(own / "gitdir") or b"")).resolve()
        common = (own / os.fsdecode(_line(own / "commondir") or b"")).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    known = back == marker and own.parent == common / "worktrees"
    return (own, common) if known and (common / "HEAD").exists() else None


def redirect(source: Path, target: Path, repositories: Sequence[str], others: Iterable[str]) -> None:
    """Make every copied repository (paths of git folders) refer to the copy. Raises `OSError`.

    `others` are git folders with a name other than `.git`, which are copied like any folder.
    """
    for path in {*repositories, *others}:
        _redirect_trees(source, target, path)
    for path in repositories:
        git = target / path
        for name in ("config", "config.worktree"):
            file = git / name
            if not file.is_file() or file.is_symlink():
                continue
            data, status = read_bytes(file, _CONFIG_BYTES)
            more = _SETTINGS + _work_tree(data, source, target, path)
            mode = stat.S_IMODE(status.st_mode)
            file.chmod(mode | 0o600)
            file.write_bytes(data.rstrip(b"\\\n ") + b"\n" + more)
            file.chmod(mode)


def _redirect_trees(source: Path, target: Path, path: str) -> None:
    """Make work trees within the workspace refer to the copy; remove the others."""
    folder = target / path / "worktrees"
    for own in list(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else ():
        pointer = _line(own / "gitdir") or b""
        place = Path(os.path.normpath(source / path / "worktrees" / own.name / os.fsdecode(pointer)))
        inside = place.is_relative_to(source) and (target / place.relative_to(source)).is_file()
        if not pointer or not inside:
            shutil.rmtree(own, ignore_errors=True)
        elif pointer.startswith(b"/"):
            (own / "gitdir").write_bytes(os.fsencode(target / place.relative_to(source)) + b"\n")


def _work_tree(config: bytes, source: Path, target: Path, path: str) -> bytes:
    """Return a setting that makes the copy its own work tree; empty if `config` stays in the copy."""
    named = _TREE.findall(config)
    if not named:
        return b""
    value = os.fsdecode(named[-1])
    tree = Path(os.path.normpath(source / path / value))
    plain = len(named) == 1 and not re.search(r"[\"\\#;~]", value)
    if not (plain and tree.is_relative_to(source)):
        tree = source / path.partition(".git")[0]
    elif not value.startswith("/"):
        return b""
    place = os.fsencode(target / tree.relative_to(source))
    return b'\tworktree = "' + place.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"\n'


def _leads(file: Path) -> bytes | None:
    """Return the path in a `.git` file as written; None if there is none."""
    line = _line(file)
    if line is None or not line.startswith(b"gitdir:"):
        return None
    return line.removeprefix(b"gitdir:").strip() or None


def _line(file: Path) -> bytes | None:
    try:
        data, _ = read_bytes(file, _MAX_BYTES)
    except (OSError, ValueError, RuntimeError):
        return None
    return data.split(b"\n", 1)[0].strip()
