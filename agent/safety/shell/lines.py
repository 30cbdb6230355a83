"""Command lines as they stand in the tree, taken apart once however often they are followed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from agent.safety.shell.parts import NO_REDIRECTION, CommandLine, Redirection
from agent.safety.shell.redirects import reads_its_target, redirection
from agent.safety.shell.tree import REDIRECTS, Source, is_several, plain_words
from agent.safety.shell.words import is_plain

if TYPE_CHECKING:
    from tree_sitter import Node

_STATEMENTS = frozenset(
    {"subshell", "compound_statement", "if_statement", "while_statement", "for_statement"}
)

MOST_FIELDS = 4_096
"""Words of all the command lines that are read together."""


def command_line(source: Source, node: Node) -> CommandLine:
    """The parts of a `command` node."""
    known = source.lines.get(node.id)
    if known is None:
        known = source.lines[node.id] = _command_line(source, node)
    return known


def redirections(source: Source, node: Node) -> Redirection:
    """The redirections directly in a node."""
    known = source.redirections.get(node.id)
    if known is None:
        found = redirection(source, [child for child in node.children if child.type in REDIRECTS])
        found.words[:0] = _dropped(source, node)
        if (body := source.body(node)) is not None:
            found.empties_input = reads_its_target(source.text(body), found)
        known = source.redirections[node.id] = found
    return known


def _dropped(source: Source, node: Node) -> list[str]:
    """Words between the parts of a node, which the grammar leaves out: a lone dash before `<<`."""
    pairs = itertools.pairwise(node.children)
    return [word for one, other in pairs for word in source.slice(one.end_byte, other.start_byte).split()]


_LINE_END = re.compile(r"(?<!\\)\n")


def _holds_several_lines(source: Source, node: Node) -> bool:
    pairs = itertools.pairwise(node.children)
    return any(_LINE_END.search(source.slice(one.end_byte, other.start_byte)) for one, other in pairs)


def _command_line(source: Source, node: Node) -> CommandLine:
    text = source.text(node)
    if (split := plain_words(text)) is not None:
        return CommandLine(tuple(split), True, False, (), (), NO_REDIRECTION)
    if "\n" in text and _holds_several_lines(source, node):
        return CommandLine((), False, True, (), (), NO_REDIRECTION, text)
    inner: list[Node] = []
    inside: list[Node] = []
    words: list[Node] = []
    assignments: list[Node] = []
    for child in node.children:
        kind = child.type
        if kind in REDIRECTS:
            inner.append(child)
        elif kind in _STATEMENTS:
            inside.append(child)
        elif kind == "variable_assignment":
            assignments.append(child)
        else:
            words.append(child)
    around = redirection(source, inner) if inner else NO_REDIRECTION
    raw = (*source.words(words), *around.words)
    several = "\n" in "".join(raw) and any(map(is_several, raw))
    plain = bool(raw) and not (inner or inside or assignments) and all(map(is_plain, raw))
    return CommandLine(raw, plain, several, tuple(assignments), tuple(inside), around)


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
        choices: Iterable[Sequence[Sequence[str]]] = itertools.product(*readings)
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
