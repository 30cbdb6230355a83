"""Where the paths of an action are: as they are written, made absolute, and where their links lead."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from agent.safety.look import Look, current
from agent.safety.permissions.reading import Reading
from agent.safety.places import absolute, joined
from agent.safety.shell.marks import GLOBS, UNKNOWN, words

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


def _texts(path: str, look: Look) -> tuple[str, ...]:
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

    def found() -> Touched:
        paths: dict[str, tuple[str, ...]] = {}
        for path, cwds in _named(reading, reads):
            if path[:1] == "/":  # wherever the command stands, also where that is not known
                spelled = spell(absolute(path))
            elif len(cwds) == 1 and UNKNOWN not in cwds[0]:
                spelled = spell(absolute(joined(cwds[0], path)))
            else:
                places = [absolute(joined(cwd, path)) for cwd in cwds if UNKNOWN not in cwd]
                spelled = tuple(dict.fromkeys([each for place in places for each in spell(place)]))
            known = paths.get(path)
            paths[path] = spelled if known is None else tuple(dict.fromkeys((*known, *spelled)))
        return paths, "\n".join([each for spelled in paths.values() for each in spelled])

    return current().once(("touched", reading, reads), found)


Named = tuple[str, tuple[str, ...]]
"""A path as it is written, and the folders it may be seen from."""


def _named(reading: Reading, reads: bool) -> Iterator[Named]:
    """Paths that the shell opens itself, then those that commands are given."""
    for each in reading.reads if reads else reading.writes:
        if _is_told(each.path):
            yield each
    for path, changes in _given(reading):
        if reads or changes:
            yield path


@lru_cache(maxsize=8)
def _given(reading: Reading) -> tuple[tuple[Named, bool], ...]:
    """Paths that commands are given, and whether they may be changed."""
    # Wrappers are given the same words again and again.
    named: dict[tuple[Named, bool], None] = {}
    for name, arguments, _, cwds in reading.commands:
        if name in ONLY_NAMES:
            continue
        changes = name not in READERS
        for word in arguments:
            if "=" in word or "@" in word:
                for path in _paths(word):
                    named[(path, cwds), changes] = None
            elif word[:1] != "-":
                named[(word, cwds), changes] = None
    return tuple([each for each in named if _is_told(each[0][0])])


def _is_told(path: str) -> bool:
    """Whether no mark is in a path; no mark is an ASCII character."""
    return path.isascii() or (UNKNOWN not in path and not any(mark in path for mark in GLOBS))


def _paths(word: str) -> list[str]:
    """The paths a word of a command may hold: itself, and what follows `=` or `@`."""
    found = [] if word.startswith("-") else [word]
    found += [rest for sign in ("=", "@") if (rest := word.partition(sign)[2])]
    return found
