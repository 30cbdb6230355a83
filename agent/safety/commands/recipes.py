"""The command lines in definitions of builds: what `make`, `npm run` and their like hand to a shell.

They are cut out as shell text, to be judged as if they had been typed. Where a definition does more than
that (other shells, included files, code of its own), it is not read this way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from agent.safety.shell.marks import words

_MAKEFILE = re.compile(r"(?:GNU)?[Mm]akefile|.*\.mk")
_JUSTFILE = re.compile(r"\.?[Jj]ustfile")
_SCRIPTS_ONLY = words(
    "name version private type description license author main module types keywords engines packageManager "
    "workspaces dependencies devDependencies peerDependencies scripts"
)
"""Keys of a `package.json` of which none but the last runs anything."""
_MAKE_DOES_MORE = re.compile(
    r"^\s*(?:-?include|sinclude|define|load|vpath|override|undefine)\b|^\s*(?:export\s+)?"
    r"(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|MAKEFILES|\.ONESHELL|\.RECIPEPREFIX|PATH)\b|\$[({](?:eval|call|file|guile)\b|!=",
    re.MULTILINE,
)
_MAKE_VALUE = re.compile(r"^(?:export\s+)?([\w.-]+)\s*(?::{0,3}|\?)=[ \t]*(.*)$")
_MAKE_REFERENCE = re.compile(r"\$(?:\(([^()]*)\)|\{([^{}]*)\}|([@<^?*+%|]))")
_MAKE_NAME = re.compile(r"[\w.-]+|[@<^*]")
_MAKE_SUFFIX = re.compile(r"([\w.-]+):%?([\w.]*)=%?([\w.]*)")
_MAKE_KNOWS = {
    "MAKE": "make",
    "CURDIR": ".",
    "RM": "rm -f",
    "CC": "cc",
    "CXX": "c++",
    "CPP": "cc -E",
    "AR": "ar",
    "AS": "as",
    "LD": "ld",
    "FC": "gfortran",
}
_JUST_DOES_MORE = re.compile(r"^\s*#!|^\s*(?:set\s+(?:windows-)?shell|import|mod)\b|\bshell\(", re.MULTILINE)
_OPEN = "$__not_known_here"
"""Stands in a shell text for what is not known: a variable that nobody sets."""
_GENERATES = re.compile(r"^//go:generate\s+(.+)$", re.MULTILINE)
_MOST_NESTED = 8


def command_lines(name: str, text: str) -> list[str] | None:
    """The shell texts in a definition of this file name; None when it is not read this way."""
    try:
        if _MAKEFILE.fullmatch(name):
            return None if _MAKE_DOES_MORE.search(text) else list(_of_make(text))
        if name == "package.json":
            return _of_package(text)
        if _JUSTFILE.fullmatch(name):
            return list(_of_just(text))
        if name.endswith(".go"):
            return [match[1] for match in _GENERATES.finditer(text)] or None
    except (ValueError, RecursionError):
        return None
    return None


def _of_package(text: str) -> list[str] | None:
    held = json.loads(text)
    if not isinstance(held, dict) or not held.keys() <= _SCRIPTS_ONLY:
        return None
    scripts = held.get("scripts", {})
    plain = isinstance(scripts, dict) and all(isinstance(each, str) for each in scripts.values())
    return [*scripts.values()] if plain else None


def _of_make(text: str) -> Iterator[str]:
    """Recipes, and what `$(shell …)` runs anywhere. Variables have the values that are written there."""
    values = dict(_MAKE_KNOWS)
    for line in re.sub(r"\\\n[ \t]*", " ", text).split("\n"):
        recipe = line.startswith("\t")
        if not recipe and (match := _MAKE_VALUE.match(line)):
            values[match[1]] = match[2].partition(" #")[0].strip()
        rule, _, behind = line.partition(";")
        if not recipe and ":" in rule:
            targets, _, sources = rule.replace("%", "made").partition(":")
            values |= {"@": _first(targets), "<": _first(sources), "^": sources, "*": "made"}
        script = (line if recipe else behind if ":" in rule else "").lstrip(" \t@+-")
        shells: list[str] = []
        filled = _filled(script or line, values, shells, _MOST_NESTED)
        yield from shells
        if script and not script.startswith("#"):
            yield filled


def _renamed(given: str) -> str:
    """`$(patsubst pattern,replacement,names)`."""
    old, new, names = given.split(",", 2)
    start, _, end = old.strip().partition("%")
    found: list[str] = []
    for name in names.split():
        fits = len(name) >= len(start) + len(end) and name.startswith(start) and name.endswith(end)
        found.append(new.strip().replace("%", name[len(start) : len(name) - len(end)]) if fits else name)
    return " ".join(found)


def _prefixed(given: str) -> str:
    prefix, names = given.split(",", 1)
    return " ".join(prefix + name for name in names.split())


_FUNCTIONS: Mapping[str, Callable[[str], str]] = {
    "wildcard": str,
    "strip": str,
    "sort": str,
    "dir": lambda given: " ".join(
        name.rpartition("/")[0] + "/" if "/" in name else "./" for name in given.split()
    ),
    "notdir": lambda given: " ".join(name.rpartition("/")[2] for name in given.split()),
    "addprefix": _prefixed,
    "patsubst": _renamed,
}
"""Functions of make that only change names. A pattern stays one, and means the same to the shell."""


def _first(names: str) -> str:
    return next(iter(names.split()), _OPEN)


def _filled(text: str, values: Mapping[str, str], shells: list[str], depth: int) -> str:
    """A line of a makefile with its variables in place; what it asks a shell for goes to `shells`."""

    def put(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[3]
        if name.startswith("shell "):
            shells.append(_filled(name[6:], values, shells, depth - 1) if depth else _OPEN)
            return _OPEN
        if not depth:
            return _OPEN
        if suffix := _MAKE_SUFFIX.fullmatch(name):
            name, old, new = suffix.groups()
            return _renamed(f"%{old},%{new},{_filled(values.get(name, ''), values, shells, depth - 1)}")
        if not _MAKE_NAME.fullmatch(name):
            function, _, given = name.partition(" ")
            return _FUNCTIONS[function](given) if function in _FUNCTIONS else _OPEN
        # What is not set is empty.
        return _filled(values.get(name, ""), values, shells, depth - 1)

    before = ""
    text = text.replace("$$", "\0")
    while before != text and depth:
        before, depth = text, depth - 1
        text = _MAKE_REFERENCE.sub(put, text)
    return text.replace("\0", "$")


def _of_just(text: str) -> Iterator[str]:
    """Lines of recipes; `{{…}}` stands for what is not known."""
    if _JUST_DOES_MORE.search(text):
        raise ValueError(text)
    for line in text.split("\n"):
        script = line.strip().lstrip("@-")
        backquoted = re.findall(r"`([^`]*)`", line) if not line[:1].isspace() else ()
        yield from backquoted
        if line[:1].isspace() and script and not script.startswith("#"):
            yield re.sub(r"\{\{.*?\}\}", _OPEN, script)
