"""What stands around a command: files it reads and writes, text it is given, commands that follow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.safety.shell.parts import Redirection
from agent.safety.shell.simple_words import PIECE
from agent.safety.shell.tree import REDIRECTS, Source

if TYPE_CHECKING:
    from tree_sitter import Node


def redirection(source: Source, nodes: Sequence[Node]) -> Redirection:
    """Collect the redirections in `nodes`."""
    found = Redirection()
    waiting = list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        if node.type == "file_redirect":
            _file(source, node, found)
        elif node.type == "herestring_redirect":
            words = source.words([child for child in node.children if child.type != "<<<"])
            found.here_string = words[0] if words else ""
            found.words += words[1:]
        elif node.type == "heredoc_redirect":
            _document(source, node, found, waiting)
    return found


_SIMPLE = re.compile(rf"(\d*)(>>|>\||>|<) *({PIECE}++)", re.ASCII)


def _file(source: Source, node: Node, found: Redirection) -> None:
    if (match := _SIMPLE.fullmatch(source.text(node))) is not None and not node.has_error:
        number, operator, target = match.groups()
        found.targets.append((operator, target))
        found.takes_output |= operator != "<" and number in ("", "1")
        return
    # The grammar lets a redirection swallow the arguments behind it; only the first word is its target.
    descriptor = node.child_by_field_name("descriptor")
    marks: list[str] = []
    rest: list[Node] = []
    for child in node.children:
        if child == descriptor:
            continue
        text = source.text(child)
        if not rest and re.fullmatch(r"[<>&|]+", text):
            marks.append(text)
        else:
            rest.append(child)
    words = source.words(rest)
    if not words:
        return
    operator = "".join(marks)
    start = node.start_byte if descriptor is None else descriptor.end_byte
    if operator == "<" and source.slice(start, start + 3) == "<<<":
        found.here_string = words[0]
        found.words += words[1:]
        return
    found.targets.append((operator, words[0]))
    found.words += words[1:]
    number = source.text(descriptor) if descriptor is not None else ""
    if ">" in operator and number in ("", "1") and not (operator == ">&" and words[0].isdigit()):
        found.takes_output = True


def _document(source: Source, node: Node, found: Redirection, waiting: list[Node]) -> None:
    start = body = end = None
    arguments: list[Node] = []
    strips = False
    for child in node.children:
        if child.type == "heredoc_start":
            start = child
        elif child.type == "heredoc_body":
            body = child
        elif child.type == "heredoc_end":
            end = child
        elif child.type in REDIRECTS:
            waiting.append(child)
        elif child.type == "pipeline":
            found.pipeline.append(child)
        elif child.type == "<<-":
            strips = True
        elif node.child_by_field_name("right") == child:
            found.followers.append(child)
        elif child.is_named and child.type not in ("file_descriptor", "ERROR"):
            arguments.append(child)
    found.words += source.words(arguments)
    if start is None or body is None:
        return
    text = source.slice(body.start_byte, end.start_byte if end is not None else body.end_byte)
    if strips:
        text = re.sub(r"^\t+", "", text, flags=re.MULTILINE)
    literal = any(mark in source.text(start) for mark in "'\"\\")
    found.document = (text, literal)


_PRINTS_ITS_WORDS = ("echo", "printf")


def reads_its_target(text: str, around: Redirection) -> bool:
    """Whether a command with this text reads a file its output goes to."""
    if not around.takes_output or text.startswith(_PRINTS_ITS_WORDS):
        return False
    targets = [target.removeprefix("./") for operator, target in around.targets if operator == ">"]
    if not any(target in text for target in targets):
        return False
    words = [word.removeprefix("./") for word in text.replace("|", " ").split()[1:]]
    return any(target in words for target in targets)
