"""The spellings of an action's paths: as written, made absolute, and where their links lead."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from agent.safety.path_cache import PathCache, current
from agent.safety.places import absolute, joined
from agent.safety.reader.marks import GLOBS, UNKNOWN, words
from agent.safety.reader.reading import Reading

ONLY_NAMES = words("echo printf ls stat test [ basename dirname realpath readlink which type file")
"""Programs to which a path is only a name."""
READERS = ONLY_NAMES | words(
    "cat head tail less more grep egrep fgrep rg ag wc diff cmp cut tr nl od xxd hexdump strings "
    "md5sum sha1sum sha256sum sha512sum jq tree du df cd pushd popd source . read mapfile readarray"
)
"""Programs that do not change the files they are given."""


Spell = Callable[[str], tuple[str, ...]]
"""All spellings of an absolute path: as it is given, and where its links lead."""


def speller() -> Spell:
    """Spellings of paths, each looked up once; for a single decision, as links may change."""
    look = current()
    known: dict[str, tuple[str, ...]] = look.once("spelled", dict)

    def spell(path: str) -> tuple[str, ...]:
        found = known.get(path)
        if found is None:
            found = known[path] = _texts(path, look)
        return found

    return spell


def spellings(path: Path) -> tuple[Path, ...]:
    """The path as it is given and where its links lead."""
    return tuple(Path(each) for each in _texts(str(path), current()))


def _texts(path: str, look: PathCache) -> tuple[str, ...]:
    """The same for a text; the last part may be a link that is meant itself."""
    text = path if absolute(path) == path and "\0" not in path else os.path.normpath(path)
    real = look.real(text)
    if real == text:  # then no folder on the way is a link either
        return (text,)
    folder, _, name = text.rpartition("/")
    entry = f"{look.real(folder or '/').rstrip('/')}/{name}"
    return (text,) if real == text == entry else tuple(dict.fromkeys((text, entry, real)))


Touched = tuple[dict[str, tuple[str, ...]], str]
"""Paths as they are written, each with all its spellings; and all spellings in one text."""


def touched(reading: Reading, reads: bool, spell: Spell) -> Touched:
    """The paths a command reads (or may), or those it changes (or may); found out once for a decision."""
    look = current()

    def found() -> Touched:
        paths: dict[str, tuple[str, ...]] = {}
        for path, cwds in reading.reads if reads else reading.writes:
            if _is_told(path):
                _add(paths, path, _spelled(path, cwds, spell))
        # What is changed may be read as well, so most paths are asked for twice.
        for path, spelled, changes in look.once(("given", reading), lambda: _given(reading, spell)):
            if reads or changes:
                _add(paths, path, spelled)
        return paths, "\n".join([each for spelled in paths.values() for each in spelled])

    return look.once(("touched", reading, reads), found)


def _add(paths: dict[str, tuple[str, ...]], path: str, spelled: tuple[str, ...]) -> None:
    known = paths.get(path)
    paths[path] = spelled if known is None or known == spelled else tuple(dict.fromkeys((*known, *spelled)))


def _spelled(path: str, cwds: tuple[str, ...], spell: Spell) -> tuple[str, ...]:
    """All spellings of a path as it is written, seen from each of the folders that are known."""
    if path[:1] == "/":  # wherever the command stands, also where that is not known
        return spell(absolute(path))
    if len(cwds) == 1:
        return () if UNKNOWN in cwds[0] else spell(absolute(joined(cwds[0], path)))
    places = [absolute(joined(cwd, path)) for cwd in cwds if UNKNOWN not in cwd]
    return tuple(dict.fromkeys([each for place in places for each in spell(place)]))


def _given(reading: Reading, spell: Spell) -> list[tuple[str, tuple[str, ...], bool]]:
    """Paths that commands are given, with their spellings, and whether they may be changed."""
    found: list[tuple[str, tuple[str, ...], bool]] = []
    # Wrappers are given the same words again and again.
    seen: dict[tuple[tuple[str, ...], bool], set[str]] = {}
    for name, arguments, _, cwds in reading.commands:
        if name in ONLY_NAMES:
            continue
        changes = name not in READERS
        known = seen.get((cwds, changes))
        if known is None:
            known = seen[cwds, changes] = set()
        for word in arguments:
            if word in known:
                continue
            known.add(word)
            if "=" in word or "@" in word:
                found += [
                    (each, _spelled(each, cwds, spell), changes) for each in _paths(word) if _is_told(each)
                ]
            elif word[:1] != "-" and _is_told(word):
                found.append((word, _spelled(word, cwds, spell), changes))
    return found


def _is_told(path: str) -> bool:
    """Whether no mark is in a path; no mark is an ASCII character."""
    return path.isascii() or (UNKNOWN not in path and not any(mark in path for mark in GLOBS))


def _paths(word: str) -> list[str]:
    """The paths a word of a command may hold: itself, and what follows `=` or `@`."""
    found = [] if word.startswith("-") else [word]
    found += [rest for sign in ("=", "@") if (rest := word.partition(sign)[2])]
    return found
