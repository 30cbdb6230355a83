"""The command lines that raw words may stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import prod

from agent.safety.shell.simple_words import simply
from agent.safety.shell.words import Scope, expand, expand_involved

MOST_FIELDS = 4_096
"""Words of all the command lines that are read together."""


def command_lines(raw: Sequence[str], scope: Scope) -> list[tuple[str, ...]]:
    """All command lines that raw words may stand for, each once; their words are counted as steps."""
    line: list[str] = []
    for place, word in enumerate(raw):
        if (text := simply(word, scope)) is None:
            # Words that stand for nothing are left out so far, but they are counted.
            readings = [[[field]] for field in line] + [[[]]] * (place - len(line))
            readings.append(expand_involved(word, scope))
            readings += [expand(each, scope) for each in raw[place + 1 :]]
            return all_choices(readings, scope.spend)
        if text or word[:1] in ("'", '"'):
            line.append(text)
    scope.spend(len(line))
    return [tuple(line)]


def all_choices(
    readings: Sequence[Sequence[Sequence[str]]], spend: Callable[[int], None]
) -> list[tuple[str, ...]]:
    """All command lines that words may stand for, of each of which there are one or several readings.

    Where they would be too many, one word at a time is read in all its ways.
    """
    open_places = [place for place, options in enumerate(readings) if len(options) > 1]
    if not open_places:
        line = tuple([field for options in readings for field in options[0]])
        spend(len(line))
        return [line]
    spend(sum(len(reading) for options in readings for reading in options))
    if prod(len(readings[place]) for place in open_places) * len(readings) <= MOST_FIELDS:
        choices: Iterable[Sequence[Sequence[str]]] = product(*readings)
    else:
        choices = (
            [option if at == place else options[0] for at, options in enumerate(readings)]
            for place in open_places
            for option in readings[place]
        )
    lines: dict[tuple[str, ...], None] = {}
    for choice in choices:
        line = tuple([field for reading in choice for field in reading])
        spend(len(line))
        lines[line] = None
    return list(lines)
