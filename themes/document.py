"""The small part of YAML that skins are written in, each value with its line.

Every scalar stays the text it is: `verbs: [Yes, No]` are two words, not two truths.
Anchors, aliases and tags are refused, and depth and size are counted before anything
is built, so that no file can exhaust memory or stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from themes.skin_text import quoted

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 8
MAX_VALUES = 4_000

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_LINE_BREAK = re.compile("\r\n?|[\x85\u2028\u2029]")

Report = Callable[[str, int | None], None]
"""Takes the sentence about something wrong, and its line."""


@dataclass(frozen=True, slots=True)
class SkinValue:
    """A scalar as it was written. `quoted` tells `"12"` from `12`, and `""` from nothing."""

    text: str
    line: int
    quoted: bool = True

    @property
    def empty(self) -> bool:
        """Whether nothing is written here (`key:`, or a colour whose `#` began a comment)."""
        return not self.quoted and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class SkinItems:
    """A list."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class SkinSection:
    """A mapping. `lines` tells where each key stands."""

    entries: dict[str, Node] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    line: int = 1


Node = SkinValue | SkinItems | SkinSection


class _RefusedError(Exception):
    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


def parse(content: bytes, report: Report) -> SkinSection:
    """The outermost mapping of a file. Never raises; what cannot be used is reported and left out."""
    try:
        root = _compose(_decode(content, report))
        if root is None:
            return SkinSection()
        node = _node(root, report)
        if isinstance(node, SkinValue) and node.empty:
            return SkinSection()
        if not isinstance(node, SkinSection):
            raise _RefusedError("this is no skin; write `key: value` lines.", node.line)
    except _RefusedError as refused:
        report(refused.message, refused.line)
        return SkinSection()
    return node


def _decode(content: bytes, report: Report) -> str:
    text = content.decode("utf-8-sig", "replace")
    if "\ufffd" in text:
        try:
            content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            report("this byte is not UTF-8 and is replaced; save the file as UTF-8.", line)
    text = _LINE_BREAK.sub("\n", text)
    if bad := _CONTROL.search(text):
        line = text.count("\n", 0, bad.start()) + 1
        report(f"the control character U+{ord(bad[0]):04X} stands here and is left out.", line)
        text = _CONTROL.sub("", text)
    return text


def _compose(text: str) -> yaml.Node | None:
    """The node tree of the only document in `text`; None when there is none."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _check_events(yaml.parse(text, Loader=loader))
        return yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _RefusedError(_syntax_message(error, text), mark.line + 1 if mark else None) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _RefusedError(f"this is no YAML: {quoted(str(error), 100)}.", None) from None


def _check_events(events: Iterator[yaml.Event]) -> None:
    import yaml

    depth = values = documents = 0
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.NodeEvent):
            values += 1
            if event.anchor is not None:
                raise _RefusedError(
                    "anchors and aliases (`&`, `*`) are not read in skins; quote the text.", line
                )
            if getattr(event, "tag", None) is not None:
                raise _RefusedError("tags (`!`) are not read in skins; quote the text.", line)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if depth > MAX_DEPTH:
            raise _RefusedError(f"sections are nested deeper than {MAX_DEPTH} levels.", line)
        if values > MAX_VALUES:
            raise _RefusedError(f"the file holds more than {MAX_VALUES:,} values.", line)
        if documents > 1:
            raise _RefusedError("a second document starts here; a skin is one document.", line)


def _syntax_message(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark
    lines = text.split("\n")
    if mark is not None and mark.line < len(lines):
        line = lines[mark.line]
        if "\t" in line[: len(line) - len(line.lstrip())]:
            return "this line is indented with a tab; use blanks."
    reason = ", ".join(part for part in (error.problem, error.context) if part)
    return f"this is no YAML: {quoted(reason, 100) or 'it cannot be read'}; nothing of the file is used."


def _node(node: yaml.Node, report: Report) -> Node:
    import yaml

    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return SkinValue(node.value, line, quoted=bool(node.style))
    if isinstance(node, yaml.SequenceNode):
        return SkinItems(tuple(_node(item, report) for item in node.value), line)
    entries: dict[str, Node] = {}
    lines: dict[str, int] = {}
    for key_node, value_node in node.value:
        at = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            report("a key must be a word.", at)
        elif key_node.value in entries:
            first = lines[key_node.value]
            report(f"`{quoted(key_node.value)}` is given twice; the one on line {first} counts.", at)
        else:
            entries[key_node.value] = _node(value_node, report)
            lines[key_node.value] = at
    return SkinSection(entries, lines, line)
