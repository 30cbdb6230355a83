"""YAML within limits: depth and values are counted before anything is built.

Import this module late, because it loads PyYAML.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml import AliasEvent, CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

__all__ = [
    "CollectionNode",
    "MappingNode",
    "Node",
    "ScalarNode",
    "SequenceNode",
    "YamlError",
    "YamlForm",
    "YamlSyntaxError",
    "check_yaml",
    "compose_exact",
    "compose_yaml",
    "dump_scalar",
    "load_table",
    "load_yaml",
]

# The parser in C takes a tenth of the time.
_Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _TextLoader(_Loader):
    """A loader that reads scalars as text: `1.10`, `yes` and dates unchanged."""


_TextLoader.yaml_implicit_resolvers = {}


class YamlError(ValueError):
    """Raised for a text that is not YAML, or not of the required form.

    `message` names the cause without a file; `line` and `column` count from 1 and are 0 if unknown.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column

    @property
    def sentence(self) -> str:
        return f"{self.message}."


class YamlSyntaxError(YamlError):
    """Raised for a text that is not YAML."""

    @property
    def sentence(self) -> str:
        return (
            f"{self.message}."
            if self.message.startswith("this line")
            else f"this is not YAML: {self.message}."
        )


@dataclass(frozen=True, slots=True)
class YamlForm:
    """The part of YAML that a kind of file may use. `name` is that kind: "a settings file"."""

    name: str
    depth: int = 32
    values: int = 20_000
    aliases: bool = True
    """Whether aliases (`*`) are accepted."""
    anchors: bool = True
    """Whether anchors (`&`) are accepted."""
    tags: bool = True
    """Whether tags (`!`) are accepted."""
    flow: bool = True
    """Whether `{…}` and `[…]` are accepted."""
    text_only: bool = False
    """Whether scalars are text, so that `1.10`, `yes` and dates are given as written."""


def load_table(path: Path) -> Any:
    """Load a YAML file that is part of the program."""
    return yaml.load(path.read_bytes(), _Loader)


def load_yaml(text: str, form: YamlForm) -> Any:
    """Load the only document in `text`. Raises `YamlError`."""
    check_yaml(text, form)
    try:
        return yaml.load(text, _TextLoader if form.text_only else _Loader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text) from None
    except (yaml.YAMLError, RecursionError, ValueError, OverflowError, AttributeError, TypeError) as error:
        # A value that looks like a date or a number, or is marked as one, but is not one.
        raise YamlError(f"it holds a value that cannot be read ({_short(str(error))}); quote it") from None


def compose_yaml(text: str, form: YamlForm) -> Node | None:
    """Return the node tree of the only document in `text`; None if it is empty. Raises `YamlError`."""
    check_yaml(text, form)
    try:
        return yaml.compose(text, _TextLoader if form.text_only else _Loader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text) from None


def compose_exact(text: str) -> Node | None:
    """Return the node tree of a checked text, with exact positions; None if it is empty.

    The C parser's positions are wrong if lines end as on Windows. Raises `YamlError`.
    """
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise YamlSyntaxError(_short(str(error))) from None


def check_yaml(text: str, form: YamlForm) -> None:
    """Raise `YamlError` for wrong syntax, or too much depth or too many values, without building anything."""
    try:
        _check_events(yaml.parse(text, Loader=_Loader), form)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, YamlError):
            raise
        raise YamlSyntaxError(_short(getattr(error, "reason", None) or str(error))) from None


def dump_scalar(value: Any, **style: Any) -> str:
    """Return `value` as YAML on one line, with PyYAML's options of `safe_dump`."""
    return yaml.safe_dump([value], **style).strip()[1:-1]


def _check_events(events: Iterator[yaml.Event], form: YamlForm) -> None:
    depth = values = documents = 0
    for event in events:
        fault = ""
        if isinstance(event, yaml.NodeEvent):
            values += 1
            alias = isinstance(event, AliasEvent)
            if (alias and not form.aliases) or (event.anchor and not alias and not form.anchors):
                fault = f"anchors and aliases (`&`, `*`) are not read in {form.name}; write the value out"
            elif not form.tags and getattr(event, "tag", None) is not None:
                fault = f"tags (`!`) are not read in {form.name}; quote the text"
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if not form.flow and event.flow_style:
                fault = f"flow style (`{{…}}`, `[…]`) is not read in {form.name}; write one entry per line"
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        if depth > form.depth:
            fault = f"brackets or sections are nested deeper than {form.depth} levels"
        elif values > form.values:
            fault = f"there are more than {form.values:,} values"
        elif documents > 1:
            fault = f"a second document starts here; {form.name} is one document"
        if fault:
            raise YamlError(fault, event.start_mark.line + 1, event.start_mark.column + 1)


def _syntax_error(error: yaml.MarkedYAMLError, text: str) -> YamlSyntaxError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    lines = text.splitlines()
    written = lines[line - 1] if 0 < line <= len(lines) else ""
    if "\t" in written[: len(written) - len(written.lstrip())]:
        return YamlSyntaxError("this line is indented with a tab; use spaces", line, column)
    reason = _short(", ".join(part for part in (error.problem, error.context) if part) or "it cannot be read")
    if error.context and error.context_mark and line and error.context_mark.line + 1 != line:
        reason += f" (begun on line {error.context_mark.line + 1})"
    return YamlSyntaxError(reason, line, column)


def _short(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= 120 else f"{line[:119]}…"
