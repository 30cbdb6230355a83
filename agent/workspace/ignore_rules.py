"""The rules of one ignore file, and which of them decides about a path.

Most rules name a file, a path or an ending; those are looked up, however many
there are. Only the others are tried one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

MAX_LINES = 50_000
"""Lines of one ignore file that are read."""
MAX_TRIED = 2_000
"""Rules that have to be tried one by one, of all ignore files that count in one folder."""

_MAX_LENGTH = 500
_STARS_IN_ALL, _STARS_IN_NAME = 6, 3
"""Wildcards in one rule. Matching may take time to their power, and a project may be hostile."""

_STARS = re.compile(r"\*+")
_PLAIN = re.compile(r"[^*?\[\]\\]*")
_SPACES_AT_END = re.compile(r"(?<!\\) +\Z")
_ODD_SET = re.compile(r"\[[^\]]*(?:\[|--|&&|\|\||~~)")
_CLASSES = {
    "[:alnum:]": "a-zA-Z0-9",
    "[:alpha:]": "a-zA-Z",
    "[:blank:]": " \t",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:space:]": " \t\n\r\f\v",
    "[:upper:]": "A-Z",
    "[:xdigit:]": "0-9a-fA-F",
}


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One line of an ignore file: `line` is its number, `brings_back` a leading `!`, `folders_only` a `/` at
    the end."""

    line: int
    brings_back: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class Tried:
    """A rule with wildcards. It can only fit what begins with `start`."""

    rule: IgnoreRule
    pattern: GitIgnoreSpecPattern
    start: str
    by_name: bool
    """Whether `start` begins a name, wherever that stands, and not a path."""

    def fits(self, path: str, name: str) -> bool:
        """Whether the rule names exactly `path`, relative to the folder of the ignore file."""
        if not (name if self.by_name else path).startswith(self.start):
            return False
        result = self.pattern.match_file(path)
        # The library also matches what is below a folder; whether that is ignored was settled above it.
        return result is not None and result.match.groupdict().get("ps_d") is None


@dataclass(slots=True)
class IgnoreRules:
    """Rules by what they name. `deciding` is for what stands below the folder of their file."""

    names: dict[str, list[IgnoreRule]] = field(default_factory=dict)
    paths: dict[str, list[IgnoreRule]] = field(default_factory=dict)
    endings: dict[str, list[IgnoreRule]] = field(default_factory=dict)
    """Of names, from a full stop on: `*.py`."""
    tried: list[Tried] = field(default_factory=list)
    complete: bool = True
    """Whether no rule was left out for want of room."""

    def __bool__(self) -> bool:
        return bool(self.names or self.paths or self.endings or self.tried)

    def deciding(self, path: str, *, folder: bool) -> IgnoreRule | None:
        """The last rule that names `path`, or None."""
        best: IgnoreRule | None = None
        name = path.rpartition("/")[2]
        for rule in self._looked_up(path, name):
            if (best is None or rule.line > best.line) and (folder or not rule.folders_only):
                best = rule
        for tried in reversed(self.tried):
            if best is not None and tried.rule.line < best.line:
                break
            if (folder or not tried.rule.folders_only) and tried.fits(path, name):
                return tried.rule
        return best

    def _looked_up(self, path: str, name: str) -> Iterator[IgnoreRule]:
        yield from self.names.get(name, ())
        yield from self.paths.get(path, ())
        if self.endings:
            stop = name.find(".")
            while stop >= 0:
                yield from self.endings.get(name[stop:], ())
                stop = name.find(".", stop + 1)


def parse(text: str, room: int = MAX_TRIED) -> IgnoreRules:
    """The rules in the text of an ignore file; lines that git or we cannot use are left out.

    Of rules that have to be tried one by one there is room for so many.
    """
    rules = IgnoreRules()
    lines = text.removeprefix("\ufeff").split("\n", MAX_LINES)
    for number, line in enumerate(lines[:MAX_LINES]):
        _add(rules, number, line.removesuffix("\r"), room)
    if any(lines[MAX_LINES:]):
        rules.complete = False
    return rules


def _add(rules: IgnoreRules, number: int, line: str, room: int) -> None:
    line = _SPACES_AT_END.sub("", line)
    core = line.removeprefix("!").removesuffix("/")
    if line.startswith("#") or not core or core.endswith("/"):
        return
    rule = IgnoreRule(number, line.startswith("!"), line.endswith("/"))
    if len(core) <= _MAX_LENGTH and _PLAIN.fullmatch(core) and "//" not in core:
        place = rules.paths if "/" in core else rules.names
        place.setdefault(core.removeprefix("/"), []).append(rule)
    elif len(core) <= _MAX_LENGTH and core.startswith("*.") and "/" not in core and _PLAIN.fullmatch(core, 1):
        rules.endings.setdefault(core[1:], []).append(rule)
    elif (pattern := _pattern(core)) is not None:
        if len(rules.tried) >= room:
            rules.complete = False
            return
        start = _PLAIN.match(core.removeprefix("/"))
        assert start is not None
        rules.tried.append(Tried(rule, pattern, start[0], "/" not in core))


def _pattern(core: str) -> GitIgnoreSpecPattern | None:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    if not _is_cheap(core):
        return None
    for name, characters in _CLASSES.items():
        core = core.replace(name, characters)
    if _ODD_SET.search(core):
        return None
    if core.startswith(("#", "!")):
        core = "\\" + core
    try:
        pattern = GitIgnoreSpecPattern(core)
    except (ValueError, re.error):
        return None
    return pattern if pattern.include else None


def _is_cheap(pattern: str) -> bool:
    most = max(len(_STARS.findall(name)) for name in pattern.split("/"))
    return (
        len(pattern) <= _MAX_LENGTH
        and most <= _STARS_IN_NAME
        and len(_STARS.findall(pattern)) <= _STARS_IN_ALL
    )
