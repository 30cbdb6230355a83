"""Command lines as they stand in the tree, taken apart once however often they are followed."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from agent.safety.shell.parts import NO_REDIRECTION, CommandLine, Redirection
from agent.safety.shell.redirects import reads_its_target, redirection
from agent.safety.shell.simple_words import PIECE
from agent.safety.shell.tree import REDIRECTS, Source, is_several, plain_words
from agent.safety.shell.words import is_plain

if TYPE_CHECKING:
    from tree_sitter import Node

_STATEMENTS = frozenset(
    {"subshell", "compound_statement", "if_statement", "while_statement", "for_statement"}
)


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
        inner = [child for child in node.children if child.type in REDIRECTS]
        if not inner and node.type == "function_definition":  # like most of them
            known = source.redirections[node.id] = NO_REDIRECTION
            return known
        found = redirection(source, inner)
        found.words[:0] = _dropped(source, node)
        if (body := source.body(node)) is not None:
            found.empties_input = reads_its_target(source.text(body), found)
        known = source.redirections[node.id] = found
    return known


def _dropped(source: Source, node: Node) -> list[str]:
    """Words between the parts of a node, which the grammar leaves out: a lone dash before `<<`."""
    words: list[str] = []
    for one, other in itertools.pairwise(node.children):
        start, end = one.end_byte, other.start_byte
        if end - start > 1 or source.data[start:end].strip():
            words += source.slice(start, end).split()
    return words


_WORD = re.compile(rf"{PIECE}++", re.ASCII)
_LINE = re.compile(rf"(?!\S*=){PIECE}++(?: ++{PIECE}++)*+", re.ASCII)


def simple_words(line: str) -> tuple[str, ...] | None:
    """The raw words of a command of nothing but words, quotes and variables; None for any other.

    Most commands are of this kind, and need no look at the nodes below theirs.
    """
    if _LINE.fullmatch(line) is None:
        return None
    return tuple(_WORD.findall(line) if "'" in line or '"' in line else line.split())


_LINE_END = re.compile(r"(?<!\\)\n")


def _holds_several_lines(source: Source, node: Node) -> bool:
    pairs = itertools.pairwise(node.children)
    return any(_LINE_END.search(source.slice(one.end_byte, other.start_byte)) for one, other in pairs)


def _command_line(source: Source, node: Node) -> CommandLine:
    text = source.text(node)
    if (split := plain_words(text)) is not None:
        return CommandLine(tuple(split), True, False, (), (), NO_REDIRECTION)
    if (raw := simple_words(text)) is not None and not node.has_error:
        return CommandLine(raw, all(map(is_plain, raw)), False, (), (), NO_REDIRECTION)
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
