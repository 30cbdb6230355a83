"""Paths of files in what is pasted or written: a drop on the terminal, an `@image.png` in a message.

Pure. Terminals paste what is dropped on them in many forms: bare, in quotes,
with backslashes, as `file://` addresses, several in a line or one a line.
Which reading is right, only the disk can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""How names of images end."""
LONGEST = 20_000
"""Characters of a paste that is read as paths."""
MOST = 50
"""Paths in one paste."""

_ROOTED = ("/", "~/", "file://")
_MENTION = re.compile(r"""(?:^|(?<=[\s(\['"]))@(?:"([^"\n]+)"|([^\s"]+))""", re.MULTILINE)
_TRAILING = ".,;:!?)]}'"


class MentionedFile(NamedTuple):
    """An image a message speaks of: the words that do, and the path they mean."""

    mention: str
    path: str


class FoundFile(NamedTuple):
    """A file that is there. `label` is what is drawn for an image, empty for another file.

    `problem` is a sentence about an image that cannot be attached.
    """

    path: str
    label: str = ""
    problem: str = ""


def readings(text: str) -> list[list[str]]:
    """The ways to read a whole text as full paths, likeliest first; none when it cannot be that."""
    import shlex

    text = text.strip()
    if len(text) > LONGEST or not text.startswith((*_ROOTED, "'", '"')):
        return []
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    found: list[list[str]] = []
    for reading in (lines, words):
        paths = [_path(each) for each in reading]
        if paths and len(paths) <= MOST and all(paths) and paths not in found:
            found.append(paths)
    return found


def images_mentioned(text: str) -> list[MentionedFile]:
    """The images a text mentions as `@path` or `@"path"`, each once, in order."""
    found = dict.fromkeys(_mentions(text))
    return list(found)


def _mentions(text: str) -> Iterator[MentionedFile]:
    for match in _MENTION.finditer(text):
        path = match[1] or match[2]
        if match[2]:
            path = path.rstrip(_TRAILING)
        if path.lower().endswith(SUFFIXES):
            yield MentionedFile(f'@"{path}"' if match[1] else f"@{path}", path)


def _path(word: str) -> str:
    """A word as a full path; empty when it is none."""
    if not word.startswith(_ROOTED):
        return ""
    if not word.startswith("file://"):
        return word
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(word)
    except ValueError:
        return ""
    return unquote(parts.path) if parts.netloc in ("", "localhost") else ""


def names(paths: Sequence[str]) -> str:
    """What stands for paths that are still looked at: the last part of the first, and how many follow."""
    first = paths[0].rstrip("/").rpartition("/")[2][:40]
    return f"[file: {first}]" if len(paths) == 1 else f"[file: {first} +{len(paths) - 1}]"
