"""Finds the one place on the disk for a path as a model writes it.

Everything that checks a path (gate, credential list, journal) sees the result
of `resolve`: absolute, without `..` and without links. `descriptors` then opens
exactly that path, so a link put there in between is refused, never followed.
"""

from __future__ import annotations

import os
from pathlib import Path

from tools.results import ToolError

_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")


def resolve(text: str, workspace: Path) -> Path:
    """The place `text` names: `~` expanded, relative to `workspace`, all links followed.

    Variables are not expanded. Raises `ToolError` for paths that cannot name a
    file and for the folders of the kernel (/proc, /sys, /dev).
    """
    path = Path(os.path.realpath(_absolute(text, workspace)))
    if os.path.islink(path):  # noqa: PTH114 - Path.is_symlink raises for names that are too long
        raise ToolError(f"Cannot use {text}: its links form a loop.")
    _refuse_kernel_folders(path, text)
    return path


def resolve_entry(text: str, workspace: Path) -> Path:
    """Like `resolve`, but a link at the very end is kept: the name to delete or to move."""
    absolute = _absolute(text, workspace)
    name = absolute.name
    if name in ("", ".", ".."):
        raise ToolError(f"{text} names no file.")
    path = Path(os.path.realpath(absolute.parent)) / name
    _refuse_kernel_folders(path, text)
    return path


def shown(path: Path, workspace: Path) -> str:
    """`path` as people and models read it: relative inside the workspace, else absolute."""
    try:
        return printable(str(path.relative_to(workspace)))
    except ValueError:
        return printable(str(path))


def printable(name: str) -> str:
    """A name from the disk as valid text; bytes that are no UTF-8 become `\\xff`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _absolute(text: str, workspace: Path) -> Path:
    if not text.strip():
        raise ToolError("The path is empty; name a file.")
    if "\0" in text:
        raise ToolError("The path holds a NUL byte; no file can have such a name.")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ToolError("The path holds characters no file name can have.") from None
    return workspace / os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises for unknown users


def _refuse_kernel_folders(path: Path, text: str) -> None:
    for folder in _KERNEL_FOLDERS:
        if path == Path(folder) or Path(folder) in path.parents:
            raise ToolError(f"Cannot use {text}: {folder} holds devices and kernel data, not files.")
