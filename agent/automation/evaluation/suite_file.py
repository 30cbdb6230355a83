"""YAML files of a suite, read so that nothing they hold exhausts memory or is passed over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from agent.automation.evaluation.text_file import bounded_text
from agent.errors import ConfigError

LARGEST = 20_000_000
"""Bytes of a file."""
_MOST_VALUES = 1_000_000
"""Values in a file, counted after aliases are expanded."""
_DEEPEST = 64


def read_mapping(path: Path, known: Sequence[str] | None) -> dict[str, Any]:
    """The mapping in a file; empty for an empty one. `known` are the keys it may have.

    Raises `ConfigError` naming file and fault.
    """
    text = bounded_text(path, LARGEST, "put long texts into `workspace` of the task")
    given = _parsed(path, text)
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise ConfigError(f"{path} has to be a mapping.")
    unknown = [str(key) for key in given if known is not None and key not in known]
    if unknown:
        raise ConfigError(f"{path}: `{unknown[0]}` is unknown; there are {', '.join(known or ())}.")
    return given


def _parsed(path: Path, text: str) -> Any:
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _values(path, node, 0)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}," if mark is not None else ""
        said = getattr(error, "problem", None) or str(error) or type(error).__name__
        raise ConfigError(f"{path}{where} is no YAML: {' '.join(str(said).split())}.") from None


def _values(path: Path, node: yaml.Node, depth: int, known: dict[int, int] | None = None) -> int:
    """How many values a node stands for.

    Raises `ConfigError` for too many, and for a key that is there twice.
    """
    known = {} if known is None else known
    if id(node) in known:
        return known[id(node)]
    if depth > _DEEPEST:
        raise ConfigError(f"{path}: is nested more than {_DEEPEST} levels deep.")
    count = 1
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen and name != "<<":
                raise ConfigError(f"{path}, line {key.start_mark.line + 1}: `{name[:60]}` is there twice.")
            seen.add(name)
            count += _values(path, value, depth + 1, known)
    elif isinstance(node, yaml.SequenceNode):
        count += sum(_values(path, each, depth + 1, known) for each in node.value)
    if count > _MOST_VALUES:
        raise ConfigError(f"{path}: holds more than {_MOST_VALUES:,} values once its aliases are expanded.")
    known[id(node)] = count
    return count
