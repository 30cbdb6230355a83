"""Task files: one JSON object a line, a table of comma-separated values, or a YAML list."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.automation.batch.task import FIELDS, BatchTask, task_of, with_image
from agent.errors import ConfigError

MOST_BYTES = 1 << 30
_STRUCTURED = ("files", "checks", "budget", "distribution")
"""Columns of a table that hold JSON."""


@dataclass(frozen=True, slots=True)
class NumberedTask:
    """A task and its place. Of tasks that are equal the second is number 2, and so on."""

    task: BatchTask
    place: int
    number: int = 1
    source: str = ""
    """A folder whose content its folder begins with."""

    @property
    def name(self) -> str:
        """What it is kept under: equal in every run over the same line."""
        return self.task.key if self.number == 1 else f"{self.task.key}-{self.number}"

    @property
    def shown(self) -> str:
        """What a person calls it."""
        return self.task.id or str(self.place)


def read_tasks(path: Path) -> list[NumberedTask]:
    """All tasks of a file. Raises `ConfigError` that names the file, the place and what is wrong."""
    readers = {".jsonl": _lines, ".ndjson": _lines, ".csv": _table, ".yaml": _list, ".yml": _list}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path.name} is no task file: it has to end in .jsonl, .csv or .yaml.")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{path.name} is larger than 1 GB; part it.")
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path.name} is not written in UTF-8; save it so.") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    found: list[NumberedTask] = []
    seen: dict[str, int] = {}
    called: dict[str, tuple[str, str]] = {}
    for where, given in reader(path.name, text):
        try:
            task = with_image(task_of(given), path.parent)
        except ConfigError as error:
            raise ConfigError(f"{path.name}, {where}: {error}.") from None
        seen[task.key] = seen.get(task.key, 0) + 1
        numbered = NumberedTask(task, len(found) + 1, seen[task.key])
        first, key = called.setdefault(numbered.shown, (where, task.key))
        if key != task.key:
            raise ConfigError(
                f"{path.name}, {where}: the id {numbered.shown!r} is taken by another task ({first}); "
                "give each its own."
            )
        found.append(numbered)
    if not found:
        raise ConfigError(f"{path.name} holds no task.")
    return found


def _lines(name: str, text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            told = getattr(error, "msg", "too deeply nested, or a number too long")
            raise ConfigError(f"{name}, line {number}: is no JSON ({told}).") from None


def _table(name: str, text: str) -> Iterator[tuple[str, Any]]:
    csv.field_size_limit(MOST_BYTES)
    rows = csv.DictReader(io.StringIO(text), strict=True)
    try:
        unknown = [column for column in rows.fieldnames or () if column not in FIELDS]
        if unknown:
            raise ConfigError(f"{name}: the column {unknown[0]!r} is unknown; there are {', '.join(FIELDS)}.")
        names = list(rows.fieldnames or ())
        if twice := [column for column in names if names.count(column) > 1]:
            raise ConfigError(f"{name}: the column {twice[0]!r} is there twice.")
        for row in rows:
            if not any(row.values()):
                continue  # as a spreadsheet writes below the last task
            where = f"line {rows.line_num}"
            if None in row:
                raise ConfigError(f"{name}, {where}: has more values than columns.")
            yield where, {column: _cell(name, where, column, value) for column, value in row.items() if value}
    except csv.Error as error:
        raise ConfigError(f"{name}, line {rows.line_num}: is no table ({error}).") from None


def _cell(name: str, where: str, column: str, value: str) -> Any:
    if column not in _STRUCTURED:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ConfigError(f"{name}, {where}: `{column}` has to be JSON.") from None


def _list(name: str, text: str) -> Iterator[tuple[str, Any]]:
    import yaml

    try:
        given = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{name}{where}: is no YAML ({getattr(error, 'problem', error)}).") from None
    except (ValueError, AttributeError, TypeError) as error:
        # A value that looks like a date or a number, or is marked as one, and is none.
        raise ConfigError(f"{name}: holds a value that cannot be read ({error}); quote it.") from None
    if isinstance(given, dict) and list(given) == ["tasks"]:
        given = given["tasks"]
    if not isinstance(given, list):
        raise ConfigError(f"{name}: has to be a list of tasks.")
    for number, each in enumerate(given, 1):
        yield f"task {number}", each
