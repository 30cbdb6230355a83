"""Fork bombs: functions that start themselves without end, and loops that start others so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.safety.shell.tree import Source

if TYPE_CHECKING:
    from tree_sitter import Node

_ALWAYS = frozenset({"true", ":", "((1))", "[ 1 ]", "[[ 1 ]]", "1"})


def is_bomb(source: Source, name: str, body: Node) -> bool:
    """Whether a function starts two of itself each time it runs, or one in an endless loop."""
    if name not in source.text(body):
        return False
    calls = background = 0
    guarded = False
    waiting: list[tuple[Node, bool]] = [(body, False)]
    while waiting:
        node, endless = waiting.pop()
        children = node.children
        own = [_calls(source, name, child) for child in children]
        if node.type == "pipeline" and sum(own) >= 2:
            return True
        calls += sum(own)
        for place, is_own in enumerate(own):
            following = children[place + 1] if place + 1 < len(children) else None
            if is_own and following is not None and following.type == "&":
                background += 1
                if endless:
                    return True
        guarded |= node.type in ("if_statement", "case_statement", "list", "for_statement")
        if node.type == "while_statement":
            condition = node.child_by_field_name("condition")
            endless = condition is not None and source.text(condition) in _ALWAYS
        waiting += [(child, endless) for child in children]
    return calls >= 2 and background >= 1 and not guarded


_WAITS = frozenset({"sleep", "wait", "read", "break", "exit", "return", "inotifywait"})


def is_endless(source: Source, loop: Node) -> bool:
    """Whether a loop without end starts programs in the background and waits for nothing."""
    condition, body = loop.child_by_field_name("condition"), loop.child_by_field_name("body")
    if condition is None or body is None or source.text(condition).rstrip(";") not in _ALWAYS:
        return False
    starts = any(child.type == "&" for child in body.children)
    return starts and not any(
        (name := child.child_by_field_name("name")) is not None and source.text(name) in _WAITS
        for child in _commands(body)
    )


def _commands(body: Node) -> Iterator[Node]:
    waiting = list(body.children)
    while waiting:
        node = waiting.pop()
        if node.type == "command":
            yield node
        else:
            waiting += node.children


def _calls(source: Source, name: str, node: Node) -> bool:
    while node.type == "redirected_statement" and node.child_count:
        node = node.children[0]
    if node.type != "command":
        return False
    command = node.child_by_field_name("name")
    return command is not None and source.text(command) == name
