"""Patterns for paths: `src/**`, `**/.env`, `~/notes/**`, `/etc/**`; globs as in `.gitignore`.

A pattern is relative to the workspace unless it starts with `/` or `~`. What
covers a folder covers everything in it. For rules that ask or deny, a pattern
without a folder (`.env`, `**/.env`) counts anywhere on the disk, and links in
it are followed; a rule that allows stays inside the workspace.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from agent.safety.path_cache import current
from agent.safety.permissions.certainty import Certainty

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_SPECIAL = re.compile(r"([*?\[\]\\!#])")
_FOLDS_CASE = sys.platform in ("darwin", "win32")


class PathPattern:
    """One compiled pattern. Raises `ValueError` with a clause that says what is wrong with `text`."""

    def __init__(self, text: str, workspace: Path, home: Path) -> None:
        if not text or text.startswith("!") or "\0" in text:
            raise ValueError("names no path")
        if text == "~" or text.startswith("~/"):
            text = str(home) + text[1:]
        elif text.startswith("~"):
            raise ValueError("names the home folder of somebody else; write the full path")
        own = text.startswith("/")
        if not own and ".." in text.split("/"):
            text, own = str(workspace / text), True
        while text.startswith("./"):
            text = "/" + text[2:].lstrip("/") if text != "./" else "/**"
        self._workspace = workspace
        self._anywhere = not own and (text.startswith("**/") or "/" not in text.strip("/"))
        base = "" if own else _SPECIAL.sub(r"\\\1", str(workspace).rstrip("/")) + "/"
        glob = _tidied(text) if own else text.lstrip("/")
        self._glob = f"**/{glob}" if self._anywhere else base + glob
        inside = base + (f"**/{glob}" if self._anywhere else glob)
        # Links in the place the person named lead where they lead when the rule is read.
        self._tight = _spec(_linked(self._glob) if own else inside)
        self._prefix = "" if self._anywhere else _literal_prefix(self._glob)

    def covers(self, path: Path) -> bool:
        """To the letter, for rules that allow. `path` is absolute and resolved."""
        return self._tight(_text(path), False)

    def may_touch(self, paths: str) -> bool:
        """Whether `find` of `finder` can say yes to any path in a text that holds them all."""
        return any(needed in paths for needed, _ in self._specs())

    def finder(self, *, inside: bool = False) -> Callable[[str], Certainty]:
        """Loosely, for rules that ask or deny: compares one normalised path after the other.

        With `inside`, what is in a folder counts as well. Links in the pattern are followed once.
        """
        linked = _linked(self._glob)
        specs = self._specs()
        globs = (self._glob, linked) if inside and self._prefix else ()
        prefixes = [f"{_literal_prefix(glob)}/" for glob in globs]

        def find(path: str) -> Certainty:
            for needed, matches in specs:
                if needed in path and matches(path, True):
                    return Certainty.YES
            if not prefixes:
                return Certainty.NO
            above = f"{path.rstrip('/')}/"
            return Certainty.MAYBE if any(each.startswith(above) for each in prefixes) else Certainty.NO

        return find

    def _specs(self) -> list[tuple[str, Matcher]]:
        return [(_needed(glob), _spec(glob)) for glob in dict.fromkeys((self._glob, _linked(self._glob)))]

    def touches(self, path: Path, *, inside: bool = False) -> Certainty:
        """What `finder` says of a single path."""
        return self.finder(inside=inside)(_text(path))


Matcher = Callable[[str, bool], bool]
"""Whether a path is covered; the flag says whether it may be a folder whose content the pattern names."""


def _text(path: Path) -> str:
    return os.path.normpath(str(path))


@lru_cache(maxsize=1_024)
def _spec(glob: str) -> Matcher:
    import pathspec

    def compiled(text: str) -> GitIgnoreSpec:
        try:
            return pathspec.GitIgnoreSpec.from_lines([text])
        except ValueError:
            raise ValueError("is no glob") from None

    anchored = "/" + glob.lstrip("/") if not glob.startswith("**/") else glob
    match = compiled(_folded(anchored)).patterns[0].match_file

    def matches(path: str, folder: bool) -> bool:
        name = _folded(path).lstrip("/")
        return bool(name) and (match(name) is not None or (folder and match(name + "/.") is not None))

    return matches


@lru_cache(maxsize=1_024)
def _needed(glob: str) -> str:
    """Text that is in every path the glob covers, where that is easily told; empty otherwise."""
    if _FOLDS_CASE or "[" in glob or "\\" in glob:
        return ""
    runs = [run for each in re.split(r"[*?!/]+", glob) if (run := each.strip())]
    return runs[-1] if runs and runs[-1] != "." else ""


def _folded(text: str) -> str:
    return text.casefold() if _FOLDS_CASE else text


def _tidied(text: str) -> str:
    """An absolute glob without `.`, `..` and doubled slashes before its first star."""
    prefix, rest = _split(text)
    closing = "/" if text.endswith("/") and not rest else ""
    return os.path.normpath(prefix or "/").rstrip("/") + (f"/{rest}" if rest else closing)


@lru_cache(maxsize=1_024)
def _split(glob: str) -> tuple[str, str]:
    """The folders before the first part with a star, and the rest."""
    names = glob.split("/")
    at = next((place for place, name in enumerate(names) if re.search(r"(?<!\\)[*?\[]", name)), len(names))
    return "/".join(names[:at]), "/".join(names[at:])


@lru_cache(maxsize=1_024)
def _literal_prefix(glob: str) -> str:
    """The path before the first star, as it stands on the disk."""
    return re.sub(r"\\(.)", r"\1", _split(glob)[0])


def _linked(glob: str) -> str:
    """The glob with the links in its plain beginning followed."""
    prefix, rest = _split(glob)
    if not prefix.startswith("/"):
        return glob
    closing = "/" if glob.endswith("/") and not rest else ""
    real = _SPECIAL.sub(r"\\\1", current().real(_literal_prefix(glob))).rstrip("/")
    return f"{real}/{rest}" if rest else real + closing
