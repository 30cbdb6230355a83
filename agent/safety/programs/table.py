"""The table of programs: the effects of each, by subcommands and options.

Each family of programs is a YAML file next to this module. The user's own files are in `~/.hermes/programs`
and take precedence. See `docs/permissions.md` for the fields.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

EffectName = Literal["looks", "edits", "code", "network", "history", "machine", "publishes", "lost"]
"""Classes of effects, from the mildest to the strictest. `looks`: changes nothing. `edits`: changes given
files, which undo restores. `code`: runs unread code, of the project or its dependencies. `network`: contacts
other machines to read. `history`: changes what only undo of `.git` restores. `machine`: acts on the machine
beyond files: services, containers, packages, other processes. `publishes`: sends to or changes other
machines. `lost`: cannot be undone.
"""
EFFECTS: tuple[EffectName, ...] = get_args(EffectName)

Operands = Literal["read", "write", "delete", "last", "rest", "none"]
"""The use of a program's path operands. `last`: the last one is written, the others are read; `rest`: the
first is read, the others are written.
"""

_LONGEST_FILE = 200_000
"""The size limit in bytes on a file of programs."""
_LISTS = frozenset({"valued", "outputs", "quiet", "scripts", "starts", "skipped_by", "notes", "local"})
_OWN_FIELDS = frozenset(
    {
        "always",
        "bare",
        "otherwise",
        "operands",
        "skip",
        "recursive",
        "wraps",
        "options",
        "hosts",
        "first",
        "plain",
        "same",
    }
)


class ProgramError(Exception):
    """Raised for an invalid file of programs; the message names file and, if possible, program and field."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The way to find the command that a program such as `sudo` runs."""

    valued: frozenset[str] = frozenset()
    """Options that take a separate value; short ones as letters."""
    skip: int = 0
    """The number of operands before the command."""
    assigns: bool = False
    """True if `NAME=value` may come before the command."""
    script: frozenset[str] = frozenset()
    """Options whose value is shell text."""
    joins: bool = False
    """True if the operands are joined into shell text."""
    folder: frozenset[str] = frozenset()
    """Options that set the folder in which the command runs."""


@dataclass(frozen=True, slots=True)
class Program:
    """The effects of one program."""

    verbs: Mapping[tuple[str, ...], EffectName] = field(default_factory=dict)
    """The effect for each sequence of first words that are not options; the longest match counts."""
    patterns: tuple[tuple[str, ...], ...] = ()
    """Those keys of `verbs` that contain a `*`, which matches any text within a word."""
    bare: EffectName = "looks"
    """The effect without a subcommand."""
    otherwise: EffectName = "code"
    """The effect of any other subcommand."""
    always: EffectName | None = None
    """The effect of a program without subcommands; None if it has some."""
    options: Mapping[str, EffectName] = field(default_factory=dict)
    """The effect of options that have one; the stricter effect counts."""
    quiet: frozenset[str] = frozenset()
    """Options with which it only reads, such as `--dry-run`."""
    valued: frozenset[str] = frozenset()
    """Options that take a separate value."""
    outputs: frozenset[str] = frozenset()
    """Options whose value is a written file."""
    operands: Operands | None = None
    """The use of its operands; None means the use that fits its effect."""
    skip: int = 0
    """The number of operands before the first path, such as 1 for the expression of `sed`."""
    skipped_by: frozenset[str] = frozenset()
    """Options that take the place of the skipped operands."""
    recursive: frozenset[str] = frozenset()
    """Options with which it affects whole folders; `always` if it always does."""
    hosts: bool = False
    """True if its operands name other machines."""
    first: bool = False
    """True if only the first operand names a machine."""
    notes: frozenset[str] = frozenset()
    """Subcommands that keep logs or settings in the home folder or check for updates although they only read;
    `*` for every use.
    """
    plain: re.Pattern[str] | None = None
    """A pattern for skipped operands without effect; others count as code."""
    scripts: frozenset[str] = frozenset()
    """Options whose value is shell text to run."""
    starts: frozenset[str] = frozenset()
    """Subcommands followed by a command line to run."""
    same: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Equivalent options, each with its main form, by subcommand; an empty subcommand means all."""
    local: frozenset[str] = frozenset()
    """Subcommands that contact other machines only if the repository's settings say so."""
    wraps: Wrapper | None = None
    """The way to find the command it runs; None if it runs none."""

    def normalize_options(self, arguments: Sequence[str]) -> tuple[str, ...]:
        """Return the arguments with equivalent options unified, so that `--recursive -f` becomes `-rf`."""
        same = dict(self.same.get("", {}))
        for verb in self.same.keys() & set(arguments):
            same |= self.same[verb]
        return tuple(_spelling(word, same) for word in arguments) if same else tuple(arguments)

    def effect(self, said: tuple[str, ...]) -> EffectName:
        """Return the effect of the program when its first operands are `said`."""
        if self.always is not None:
            return self.always
        if not said:
            return self.bare
        for length in range(min(len(said), 3), 0, -1):
            if (found := self.verbs.get(said[:length])) is not None:
                return found
        found = [
            verb for verb in self.patterns if len(verb) <= len(said) and all(map(fnmatchcase, said, verb))
        ]
        return self.verbs[max(found, key=len)] if found else self.otherwise


def _spelling(word: str, same: Mapping[str, str]) -> str:
    if word.startswith("--") and len(word) > 3:
        name = word.partition("=")[0]
        # Most programs accept a prefix of a long option.
        known = (name, *(each for each in same if each.startswith(name)))
        return next((same[each] for each in known if each in same), word)
    if word in same or not word.startswith("-") or word.startswith("--"):
        return same.get(word, word)
    letters = (same.get(f"-{letter}", letter).lstrip("-") for letter in word[1:])
    return "-" + "".join(each[:1] for each in letters)


Table = Mapping[str, Program]
FOLDER = Path(__file__).parent


def stricter(one: EffectName, other: EffectName) -> EffectName:
    """Return the stricter of two effects."""
    return one if EFFECTS.index(one) >= EFFECTS.index(other) else other


def programs(own: Path | None = None) -> Table:
    """Return all known programs, including the user's in the folder `own`; invalid user files are left out.

    Checks the user's folder each time, but reads only changed files.
    """
    if own is None:
        return _ours()
    return _with_own(own, _stamps(own))


def program_mistakes(own: Path) -> tuple[str, ...]:
    """Return the mistakes in the user's own files, one sentence each."""
    found: list[str] = []
    for path in sorted(own.glob("*.yaml")) if own.is_dir() else []:
        try:
            _read(path)
        except ProgramError as error:
            found.append(str(error))
    return tuple(found)


def examples(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the examples in one file of programs as (effect, command)."""
    for effect, commands in (_load(path).get("examples") or {}).items():
        yield from ((str(effect), str(command)) for command in commands)


def families() -> tuple[Path, ...]:
    """Return the YAML files that ship with Hermes, each describing a family of programs."""
    return tuple(sorted(FOLDER.glob("*.yaml")))


@cache
def _ours() -> Table:
    table: dict[str, Program] = {}
    for path in families():
        for name, program in _read(path).items():
            if name in table:
                raise ProgramError(f"{path.name}: {name} stands in another file too")
            table[name] = program
    return table


def _stamps(own: Path) -> tuple[tuple[str, int, int], ...]:
    try:
        with os.scandir(own) as entries:
            found = [
                (e.path, s.st_mtime_ns, s.st_size)
                for e in entries
                if e.name.endswith(".yaml")
                for s in [e.stat()]
            ]
    except OSError:
        return ()
    return tuple(sorted(found))


@lru_cache(maxsize=8)
def _with_own(own: Path, stamps: tuple[tuple[str, int, int], ...]) -> Table:
    table = dict(_ours())
    for path, _, _ in stamps:
        try:
            table |= _read(Path(path))
        except ProgramError:
            continue  # `hermes permissions test` names it
    return table


def _load(path: Path) -> dict[str, Any]:
    from tools.kit.yaml_text import YamlForm, load_yaml

    try:
        data = path.read_bytes()
        if len(data) > _LONGEST_FILE:
            raise ProgramError(f"{path.name} is longer than {_LONGEST_FILE:,} bytes.")
        loaded = load_yaml(data.decode("utf-8"), YamlForm("a table of programs"))
    except (OSError, ValueError) as error:
        raise ProgramError(f"{path.name} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(loaded, dict) or not isinstance(loaded.get("programs"), dict):
        raise ProgramError(f"{path.name} needs a table named `programs`.")
    return cast("dict[str, Any]", loaded)


def _read(path: Path) -> dict[str, Program]:
    found: dict[str, Program] = {}
    for names, spec in _load(path)["programs"].items():
        program = _program(f"{path.name}: {names}", spec)
        found.update((name, program) for name in _words(names))
    return found


def _words(text: object) -> list[str]:
    if isinstance(text, list):
        return [str(each) for each in cast("list[object]", text)]
    return [" ".join(each.split()) for each in str(text).split(",") if each.strip()]


def _program(place: str, spec: object) -> Program:
    if isinstance(spec, str):
        return Program(always=_effect(place, spec))
    if not isinstance(spec, dict):
        raise ProgramError(f"{place} must be an effect or a table.")
    spec = cast("dict[str, Any]", spec)
    unknown = set(map(str, spec)) - set(EFFECTS) - _LISTS - _OWN_FIELDS
    if unknown:
        raise ProgramError(f"{place} has the unknown field `{min(unknown)}`.")
    verbs: dict[tuple[str, ...], EffectName] = {}
    for effect in EFFECTS:
        verbs.update((tuple(words.split()), effect) for words in _words(spec.get(effect) or ""))
    lists: dict[str, Any] = {name: frozenset(_words(spec[name])) for name in _LISTS if name in spec}
    for name in ("bare", "otherwise", "always"):
        if name in spec:
            lists[name] = _effect(place, spec[name])
    if (operands := spec.get("operands")) is not None:
        if operands not in get_args(Operands):
            raise ProgramError(f"{place}: operands are {', '.join(get_args(Operands))}, not {operands}.")
        lists["operands"] = operands
    options = spec.get("options") or {}
    lists["options"] = {
        word: _effect(place, effect) for effect, said in options.items() for word in _words(said)
    }
    recursive = frozenset(_words(spec.get("recursive", "")))
    return Program(
        verbs,
        tuple(verb for verb in verbs if any("*" in word for word in verb)),
        skip=int(spec.get("skip", 0)),
        hosts=bool(spec.get("hosts", False)),
        first=bool(spec.get("first", False)),
        plain=None if "plain" not in spec else _pattern(place, spec["plain"]),
        recursive=recursive,
        same=_same(spec.get("same", "")),
        wraps=None if spec.get("wraps") is None else _wrapper(place, spec["wraps"]),
        **lists,
    )


def _same(text: object) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for group in _words(text):
        words = group.split()
        verb = "" if words[0].startswith("-") else words.pop(0)
        found.setdefault(verb, {}).update(dict.fromkeys(words, words[0]))
    return found


def _effect(place: str, name: object) -> EffectName:
    if name not in EFFECTS:
        raise ProgramError(f"{place}: there is no effect {name!r}; effects are {', '.join(EFFECTS)}.")
    return cast("EffectName", name)


def _pattern(place: str, text: object) -> re.Pattern[str]:
    try:
        return re.compile(str(text), re.DOTALL)
    except re.error as error:
        raise ProgramError(f"{place}: `plain` is not a regular expression: {error}.") from error


def _wrapper(place: str, spec: object) -> Wrapper:
    if not isinstance(spec, dict):
        raise ProgramError(f"{place}: `wraps` must be a table, which may be empty.")
    table = cast("dict[str, Any]", spec)
    listed = {name: frozenset(str(table.get(name, "")).split()) for name in ("valued", "script", "folder")}
    if unknown := set(table) - set(Wrapper.__slots__):
        raise ProgramError(f"{place}: `wraps` has the unknown field `{min(unknown)}`.")
    valued = listed["valued"] | listed["folder"]
    return Wrapper(
        valued,
        int(table.get("skip", 0)),
        bool(table.get("assigns", False)),
        listed["script"],
        bool(table.get("joins", False)),
        listed["folder"],
    )
