"""Assignments: `name=value`, arrays, `+=`, `declare` and `unset`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.safety.shell import marks
from agent.safety.shell.host import Host
from agent.safety.shell.marks import UNKNOWN
from agent.safety.shell.state import MOST_MERGED
from agent.safety.shell.tree import Source
from agent.safety.shell.values import Output, Value
from agent.safety.shell.words import expand, expand_quoted, expand_text
from agent.safety.shell.wrappers import ASSIGNMENT

if TYPE_CHECKING:
    from tree_sitter import Node

_KEYED = re.compile(r"^\[[^]]*\]=")


def assignment(shell: Host, node: Node, stdin: Output) -> Output:
    """Carry out one assignment; an assignment prints nothing."""
    name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name_node is None:
        return [""]
    name = shell.source.text(name_node).partition("[")[0]
    if value_node is None:
        values: list[Value] = [""]
    elif value_node.type == "array":
        values = [_elements(shell, value_node)]
    else:
        # What stands right behind the value without a gap belongs to it (`$"…"`).
        values = list(expand_text(shell.source.slice(value_node.start_byte, node.end_byte), shell))
    if name_node.type == "subscript":
        _follow_key(shell, shell.source.text(name_node))
        values = [UNKNOWN, *values]
    elif node.children[1].type == "+=":
        values = _appended(shell, name, values)
    shell.state.assign(name, values)
    return [""]


def assigned_names(source: Source, nodes: Sequence[Node]) -> list[str]:
    """The variables that assignments set."""
    names = [node.child_by_field_name("name") for node in nodes]
    return [source.text(name).partition("[")[0] for name in names if name is not None]


def _follow_key(shell: Host, text: str) -> None:
    """What stands in brackets is expanded, whatever becomes of the element."""
    expand_quoted(text.partition("[")[2], shell)


def _elements(shell: Host, array: Node) -> tuple[str, ...]:
    """The elements of `(a b [key]=c)`; keys are not followed."""
    words = shell.source.words([child for child in array.children if child.is_named])
    readings = (reading for word in words for reading in expand(word, shell))
    return tuple(_KEYED.sub("", marks.value(field)) for reading in readings for field in reading)


def _appended(shell: Host, name: str, values: list[Value]) -> list[Value]:
    """What `name+=value` makes of the values the variable has."""
    found: list[Value] = []
    for old in (shell.state.values(name) or [""])[:MOST_MERGED]:
        for new in values[:MOST_MERGED]:
            if isinstance(old, str) and isinstance(new, str):
                found.append(old + new)
            else:
                found.append((*_listed(old), *_listed(new)))
    shell.state.spend(sum(len(each) for each in found) // 16)
    return found


def _listed(value: Value) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def declaration(shell: Host, node: Node, stdin: Output) -> Output:
    """`export`, `declare`, `local`, `readonly`, also with quoted assignments."""
    for child in node.children:
        if child.type == "variable_assignment":
            assignment(shell, child, None)
        elif child.type == "word" and re.fullmatch(r"-[A-Za-z]*n[A-Za-z]*", shell.source.text(child)):
            shell.judge.doubt("a name stands for another variable here")
        elif child.type not in ("variable_name", "word") and child.is_named:
            for text in expand_text(shell.source.text(child), shell):
                _follow_key(shell, text.partition("=")[0])
                if match := ASSIGNMENT.fullmatch(text):
                    shell.state.assign(match[1], [match[3]])
    return [""]


def unset(shell: Host, node: Node, stdin: Output) -> Output:
    for child in node.children:
        if child.type == "variable_name":
            shell.state.assign(shell.source.text(child), [""])
        elif child.is_named:
            for text in expand_text(shell.source.text(child), shell):
                _follow_key(shell, text)
    return [""]
