"""Attachments of messages, found by the paths in the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent.core.attachments import (
    AttachmentError,
    AttachmentStore,
    NotAnImageError,
    check,
    image_label,
    short_name,
)
from agent.core.messages import Attachment
from tools.text.safe_text import clean
from widgets.prompt.draft import SUFFIXES, FoundFile, MentionedFile, readings

KEPT_IMAGE = "sha256:"
"""The prefix of a stored image's hash, which conversations use instead of a path."""


def sources(attachments: Sequence[Attachment]) -> tuple[str, ...]:
    """Return the references by which the conversation loads a message's images: hashes with a prefix."""
    return tuple(f"{KEPT_IMAGE}{each.sha256}" for each in attachments)


def locate(path: str, workspace: Path) -> Path:
    """Resolve a path; `~` is the user's home folder, relative paths start at the workspace."""
    try:
        return workspace / Path(path).expanduser()
    except RuntimeError:
        return workspace / path


def first_existing(paths: Sequence[Sequence[str]], workspace: Path) -> list[FoundFile] | None:
    """Return the files of the first alternative whose paths all exist, or None. Reads the disk."""
    for reading in paths:
        files = [locate(path, workspace) for path in reading]
        if files and all(map(_is_file, files)):
            return [_describe_file(file, workspace) for file in files]
    return None


def named_files(argument: str, workspace: Path) -> list[FoundFile]:
    """Return the files that the argument of `/attach` names, quoted or not. Raises `AttachmentError`."""
    argument = argument.strip().removeprefix("@")
    if not argument:
        raise AttachmentError("Say which image: /attach PATH, or drop it on the terminal.")
    files = first_existing([[argument], *readings(argument), *_relative(argument)], workspace)
    if files is None:
        raise AttachmentError(f"There is no file {clean(argument)[:200]!r}; check the path.")
    return files


def store_mentioned(
    images: Sequence[MentionedFile], store: AttachmentStore, workspace: Path
) -> tuple[tuple[Attachment, ...], list[str]]:
    """Store the images mentioned in a message; return them and a sentence for each that cannot be attached.

    A mention that is not a file is an ordinary word. Reads and writes the disk.
    """
    taken: dict[Path, Attachment] = {}
    problems: list[str] = []
    for image in images:
        path = locate(image.path, workspace)
        if path in taken or not _is_file(path):
            continue
        try:
            taken[path] = store.take(path, image.mention)
        except AttachmentError as error:
            problems.append(f"Not attached: {error}")
    return tuple(taken.values()), problems


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _describe_file(path: Path, workspace: Path) -> FoundFile:
    shown = path.relative_to(workspace) if path.is_relative_to(workspace) else path
    try:
        _, size = check(path)
    except NotAnImageError as error:
        return FoundFile(str(shown), problem=str(error) if path.suffix.lower() in SUFFIXES else "")
    except AttachmentError as error:
        return FoundFile(str(shown), problem=str(error))
    return FoundFile(str(shown), image_label(short_name(path), size))


def _relative(argument: str) -> list[list[str]]:
    import shlex

    try:
        return [words] if (words := shlex.split(argument)) else []
    except ValueError:
        return []
