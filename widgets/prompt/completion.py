"""Completions at the cursor, and how well each candidate fits.

Pure. Ranking 100,000 paths takes some milliseconds and belongs into a thread.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, compress, repeat
from operator import contains
from typing import NamedTuple

from tools.text.safe_text import clean

LIMIT = 50
"""Candidates a ranking gives at most."""

_CONSIDERED = 400
_CHUNK = 5_000
_COMMON_LAST = {letter: place for place, letter in enumerate("zqxjkvwybfgphudmlcniorsate/")}


class CommandChoice(NamedTuple):
    """A command of the `/` menu. `hint` shows its arguments, such as `<name>`; empty means none."""

    name: str
    description: str = ""
    hint: str = ""


class CompletionChoice(NamedTuple):
    """One row of the menu. `text` replaces the mention when it is taken."""

    text: str
    label: str
    hint: str = ""
    detail: str = ""
    hits: tuple[int, ...] = ()
    """Offsets in `label` that the query matched."""
    complete: bool = False
    """Whether nothing needs to follow, so that taking it may send it."""


def rank_commands(commands: Iterable[CommandChoice], query: str) -> list[CompletionChoice]:
    """The commands that fit, best first; all of them in their own order for an empty query."""
    wanted = query.lower()
    ranked: list[tuple[int, int, CommandChoice]] = []
    for place, command in enumerate(commands):
        fit = _fit(command.name.lower(), command.name.lower(), wanted)
        if fit is not None:
            ranked.append((fit, place, command))
    ranked.sort(key=lambda entry: entry[:2])
    return [
        CompletionChoice(
            text=f"/{command.name} ",
            label=f"/{command.name}",
            hint=command.hint,
            detail=command.description,
            hits=hits(f"/{command.name}", query, start=1),
            complete=not command.hint,
        )
        for _, _, command in ranked
    ]


def file_choices(paths: Iterable[str], query: str) -> list[CompletionChoice]:
    """Menu rows for ranked paths."""
    return [CompletionChoice(mention_of(path) + " ", path, hits=hits(path, query)) for path in paths]


def agent_choices(
    agents: Iterable[CommandChoice], query: str
) -> tuple[list[CompletionChoice], list[CompletionChoice]]:
    """Menu rows for kinds of agents: those whose names begin with a query, and others that fit it."""
    begun: list[CompletionChoice] = []
    others: list[CompletionChoice] = []
    wanted = query.lower()
    for agent in agents:
        if _fit(agent.name, agent.name, wanted) is None:
            continue
        found = CompletionChoice(
            text=f"@{agent.name} ",
            label=agent.name,
            hint=agent.hint,
            detail=agent.description,
            hits=hits(agent.name, query),
        )
        (begun if wanted and agent.name.startswith(wanted) else others).append(found)
    return begun, others


def mention_of(path: str) -> str:
    """A path as it is written in a message: `@src/money.py`, quoted when it holds blanks."""
    return f'@"{path}"' if any(character.isspace() for character in path) else f"@{path}"


def _can_be_mentioned(path: str) -> bool:
    """Whether a path can stand in a draft as it is, with nothing hidden in it."""
    seen = path.isascii() or clean(path) == path
    return bool(path) and seen and path.isprintable() and '"' not in path


class PathIndex:
    """Paths prepared for ranking: shallow and short ones first."""

    def __init__(self, paths: Iterable[str]) -> None:
        # Buckets instead of one sort: a long sort would keep the interpreter from the event loop.
        buckets: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for path in paths:
            if _can_be_mentioned(path):
                buckets[path.rstrip("/").count("/"), len(path)].append(path)
        self._paths = [path for key in sorted(buckets) for path in buckets[key]]
        self._lowered = [path.lower() for path in self._paths]
        self._all = "\n".join(self._lowered)
        self._folders: PathIndex | None = None
        self._starts = list(accumulate((len(path) + 1 for path in self._lowered), initial=0))

    def folders(self) -> PathIndex:
        """The folders of the paths, made when they are first asked for."""
        if self._folders is None:
            self._folders = PathIndex(folders_of(self._paths))
        return self._folders

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def rank(self, query: str, limit: int = LIMIT) -> list[str]:
        """The paths that fit `query`, best first, upper and lower case alike.

        Those that contain it come before those that only have its characters in order;
        of very many the shallow and short ones are considered.
        """
        wanted = query.lower().strip()
        if not wanted:
            return self._paths[:limit]
        lowered = self._lowered
        found = self._containing(wanted)
        if len(found) < limit:
            contained = set(found)
            found += [at for at in self._scattered(wanted) if at not in contained]
        ranked: list[tuple[int, int]] = []
        for at in found:
            path = lowered[at]
            fit = _fit(path, path[path.rstrip("/").rfind("/") + 1 :], wanted)
            if fit is not None:
                ranked.append((fit, at))
        ranked.sort()
        return [self._paths[at] for _, at in ranked[:limit]]

    def _containing(self, wanted: str) -> list[int]:
        """The first paths that contain `wanted`, found in one text of all paths."""
        found: list[int] = []
        at = self._all.find(wanted)
        while at >= 0 and len(found) < _CONSIDERED:
            path = bisect_right(self._starts, at) - 1
            found.append(path)
            at = self._all.find(wanted, self._starts[path] + len(self._lowered[path]))
        return found

    def _scattered(self, wanted: str) -> list[int]:
        """The first paths that have all characters in order; the rare characters are asked first."""
        rare_first = sorted(set(wanted), key=lambda letter: _COMMON_LAST.get(letter, -1))
        fits = _in_order(wanted).search
        found: list[int] = []
        for start in range(0, len(self._lowered), _CHUNK):
            paths = self._lowered[start : start + _CHUNK]
            places: list[int] = list(range(start, start + len(paths)))
            for character in rare_first:
                has = list(map(contains, paths, repeat(character)))
                paths, places = list(compress(paths, has)), list(compress(places, has))
            found += compress(places, map(fits, paths))
            if len(found) >= _CONSIDERED:
                break
        return found[:_CONSIDERED]


def folders_of(paths: Iterable[str]) -> list[str]:
    """The folders that hold the files, each once, with a stroke at its end."""
    found: dict[str, None] = {}
    for path in paths:
        at = path.rfind("/")
        # Where a folder is known, so are those above it.
        while at > 0 and (folder := path[: at + 1]) not in found:
            found[folder] = None
            at = path.rfind("/", 0, at)
    return list(found)


def hits(label: str, query: str, start: int = 0) -> tuple[int, ...]:
    """The offsets of `label` that `query` matches: one stretch, near the end, when there is one."""
    lowered, wanted = label.lower(), query.lower().strip()
    if len(lowered) != len(label) or not wanted:
        return ()
    at = lowered.rfind(wanted, start)
    if at >= 0:
        return tuple(range(at, at + len(wanted)))
    name = lowered.rfind("/", start, len(lowered) - 1) + 1
    for begin in (name, start):
        found: list[int] = []
        place = begin
        for character in wanted:
            place = lowered.find(character, place)
            if place < 0:
                break
            found.append(place)
            place += 1
        else:
            return tuple(found)
    return ()


def _fit(whole: str, name: str, wanted: str) -> int | None:
    """How well a name fits, 0 best, None not at all. `name` is the last part of `whole`."""
    if not wanted or name == wanted:
        return 0
    if name.startswith(wanted):
        return 1
    at = name.find(wanted)
    if at > 0:
        return 3 if name[at - 1].isalnum() else 2
    if wanted in whole:
        return 4 if whole.startswith(wanted) or "/" + wanted in whole else 5
    pattern = _in_order(wanted)
    if match := pattern.search(name):
        return 6 + min(match.end() - match.start() - len(wanted), 50)
    if match := pattern.search(whole):
        return 60 + min(match.end() - match.start() - len(wanted), 500)
    return None


@lru_cache(maxsize=8)
def _in_order(wanted: str) -> re.Pattern[str]:
    # Possessive: where the first way through fails, none of the others can succeed.
    first, *rest = map(re.escape, wanted)
    return re.compile(first + "".join(f"[^{letter}]*+{letter}" for letter in rest))
