"""Variables that a script sets: assignments, `export`, `declare` and `unset`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agent.safety.reader.expansion import HIDDEN
from agent.safety.reader.marks import UNKNOWN, literal, value
from agent.safety.reader.shell import ShellReader

if TYPE_CHECKING:
    from tree_sitter import Node


_NOT_UNDERSTOOD = "part of it is not understood"


def assign(script: ShellReader, node: Node, *, exported: bool) -> str:
    name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name_node is None:
        return ""
    name = script.text(name_node)
    if name_node.type == "subscript":
        script.look_inside(name_node)
        name = name.partition("[")[0]
        script.state.variables[name] = UNKNOWN
        return ""
    if value_node is None:
        given: str | tuple[str, ...] = ""
    elif value_node.type == "array":
        given = tuple(map(value, script.expansion().words(value_node.named_children)))
    else:
        given = script.expansion().text([value_node])
        home = script.state.get("HOME")
        if given.startswith(("~/", "~:")) or given == "~":
            given = f"{home}{given[1:]}" if isinstance(home, str) else given
    if any(child.type == "+=" for child in node.children):
        before = script.state.get(name)
        if isinstance(before, tuple) and isinstance(given, tuple):
            given = (*before, *given)
        else:
            given = f"{before}{given}" if isinstance(before, str) and isinstance(given, str) else UNKNOWN
    script.state.variables[name] = given
    if exported and isinstance(given, str) and HIDDEN.search(given):
        script.doubt(_NOT_UNDERSTOOD)
    if exported or name != name.lower():
        script.assigned.add(f"export {name}" if exported else name)
    return ""


def declare(script: ShellReader, node: Node) -> str:
    exported = node.children[0].type in ("export", "declare", "typeset")
    reference = False
    for child in node.children[1:]:
        if child.type == "variable_assignment":
            assign(script, child, exported=exported)
            if reference and (name := child.child_by_field_name("name")) is not None:
                # Another name of a variable: what is set by it is not followed.
                script.assigned.add(f"export {script.text(child).rpartition('=')[2]}")
                script.state.variables[script.text(name)] = UNKNOWN
        elif child.type == "word" and re.fullmatch(r"-\w*n\w*", script.text(child)):
            reference = node.children[0].type in ("declare", "typeset", "local")
        elif child.is_named:
            said = (
                script.expansion().words([child]) if child.type != "variable_name" else [script.text(child)]
            )
            if exported:
                script.assigned |= {
                    f"export {literal(word).partition('=')[0]}" for word in said if word[:1] != "-"
                }
            if any(HIDDEN.search(word) for word in said):
                script.doubt(_NOT_UNDERSTOOD)
            if node.type == "unset_command":
                script.assigned |= set(said)
                for word in said:
                    script.state.variables[word] = UNKNOWN
                    script.state.functions.pop(word, None)
    return ""
