"""Tasks of a batch: their file, their fields, and the random choice of toolsets."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from agent.automation.checks.check import Check, checks_of
from agent.core.attachments import AttachmentStore
from agent.errors import ConfigError, HermesError
from agent.session.spending.budget import Budget

Distribution = Mapping[str, float]
"""Toolsets or tools, each with its chance in percent."""


def distribution_of(given: object) -> dict[str, float]:
    """Return the chance of each toolset from a mapping, or from text such as `file=100,web=60`.

    Raises `ConfigError`, whose message is a clause.
    """
    if isinstance(given, str):
        pairs = [each.partition("=") for each in given.split(",") if each.strip()]
        given = {name.strip(): _number(chance) for name, _, chance in pairs}
    if not isinstance(given, Mapping):
        raise ConfigError("`distribution` is a mapping of toolsets to percent, such as {file: 100, web: 60}")
    chances: dict[str, float] = {}
    for name, chance in given.items():
        if not isinstance(name, str) or not name.strip():
            raise ConfigError("`distribution` has a chance without a toolset")
        if isinstance(chance, bool) or not isinstance(chance, int | float) or not 0 < chance <= 100:
            raise ConfigError(f"`distribution`: the chance of {name!r} has to be above 0 and at most 100")
        chances[name.strip()] = float(chance)
    return chances


def draw_toolsets(distribution: Distribution, name: str) -> tuple[str, ...]:
    """Return toolsets for the task `name`, chosen at random but the same in every run.

    If none is chosen, the most likely one is returned.
    """
    found = tuple(toolset for toolset, chance in distribution.items() if _point(name, toolset) < chance)
    if found or not distribution:
        return found
    return (max(distribution, key=lambda toolset: distribution[toolset]),)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _point(name: str, toolset: str) -> float:
    """Return a pseudorandom number from 0 to below 100 that is the same in every process."""
    digest = hashlib.sha256(f"{name}\0{toolset}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") * 100 / (1 << 48)


FIELDS = ("prompt", "id", "files", "image", "checks", "budget", "model", "toolsets", "distribution")
_LONGEST_NAME, _LONGEST_PATH = 255, 1024
_MEASURES = {
    "requests": "turns",
    "turns": "turns",
    "tokens": "tokens",
    "money": "money",
    "seconds": "seconds",
}


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A task as written in a file. `key` is the hash of everything that can influence its answer."""

    prompt: str
    key: str
    id: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    """The contents of files to write into its folder, by relative path."""
    image: str = ""
    """The path of an image that is shown with the prompt; empty without one."""
    checks: tuple[Check, ...] = ()
    budget: Budget = field(default_factory=Budget)
    model: str = ""
    toolsets: tuple[str, ...] = ()
    distribution: Distribution = field(default_factory=dict)
    """The chances of toolsets, as an alternative to `toolsets`."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The task as parsed from the file, for another process."""


def task_of(given: object) -> BatchTask:
    """Return a task from parsed file content. Raises `ConfigError`, whose message is a clause."""
    if not isinstance(given, Mapping):
        raise ConfigError("a task is a mapping with `prompt`")
    if unknown := [str(name) for name in given if name not in FIELDS]:
        raise ConfigError(f"`{unknown[0]}` is not part of a task; those are {', '.join(FIELDS)}")
    prompt = given.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ConfigError("`prompt` is missing or empty")
    if given.get("toolsets") and given.get("distribution"):
        raise ConfigError("`toolsets` and `distribution` exclude each other")
    return BatchTask(
        prompt=prompt,
        key=_require_key(given),
        id=_printable(given, "id"),
        files=_files(given.get("files") or {}),
        image=_text(given, "image"),
        checks=_checks(given.get("checks") or []),
        budget=budget_of(given.get("budget") or {}),
        model=_printable(given, "model"),
        toolsets=_names(given.get("toolsets") or []),
        distribution=distribution_of(given.get("distribution") or {}),
        given=given,
    )


def with_image(task: BatchTask, base: Path) -> BatchTask:
    """Return the task with a key that also depends on the content of its image.

    The image's path is relative to `base`. Raises `ConfigError`, whose message is a clause, if it cannot be
    read.
    """
    if not task.image:
        return task
    try:
        digest = AttachmentStore.digest(base / task.image)
    except HermesError as error:
        raise ConfigError(f"`image`: {str(error).rstrip('.')}") from error
    key = hashlib.sha256(f"{task.key} {digest}".encode()).hexdigest()[:24]
    return replace(task, key=key)


def budget_of(given: object) -> Budget:
    """Return a budget from a mapping of measures to limits. Raises `ConfigError` with a clause."""
    if not isinstance(given, Mapping):
        raise ConfigError("`budget` is a mapping, such as {tokens: 20000}")
    values: dict[str, Any] = {}
    for name, value in given.items():
        measure = _MEASURES.get(str(name))
        if measure is None:
            raise ConfigError(f"`budget.{name}` is unknown; there are {', '.join(_MEASURES)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
            raise ConfigError(f"`budget.{name}` has to be a number above 0")
        if measure in ("turns", "tokens") and value < 1:
            raise ConfigError(f"`budget.{name}` has to be 1 or more")
        values[measure] = float(value) if measure in ("money", "seconds") else int(value)
    return Budget(**values)


def _require_key(given: Mapping[str, Any]) -> str:
    try:
        return _key(given)
    except TypeError:
        raise ConfigError(
            "a task holds text, numbers, lists and mappings named by text; quote dates and names"
        ) from None
    except (ValueError, RecursionError):
        raise ConfigError("a task cannot hold itself or be nested so deeply") from None


def _key(given: Mapping[str, Any]) -> str:
    counts = {name: given[name] for name in FIELDS if name != "id" and given.get(name)}
    text = json.dumps(counts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ConfigError(f"`{name}` has to be text")
    return str(value)


def _printable(given: Mapping[str, Any], name: str) -> str:
    value = _text(given, name)
    if not value.isprintable():
        raise ConfigError(f"`{name}` holds characters that cannot be printed")
    return value


def _checks(given: object) -> tuple[Check, ...]:
    """Return the checks of a task. Raises `ConfigError`, also for characters that no command can contain."""
    checks, left = checks_of(given), [given]
    while left:
        match left.pop():
            case str() as text if "\0" in text or any("\ud800" <= mark <= "\udfff" for mark in text):
                raise ConfigError("`checks` hold a NUL or half of a character (a lone surrogate)")
            case list() as values:
                left += values
            case dict() as values:
                left += [*values, *values.values()]
    return checks


def _names(given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        return tuple(name for name in given.replace(",", " ").split() if name)
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ConfigError("`toolsets` is a list of names")
    return tuple(given)


def _files(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise ConfigError("`files` is a mapping of paths to text")
    for path, text in given.items():
        if not isinstance(path, str) or not isinstance(text, str):
            raise ConfigError("`files` is a mapping of paths to text")
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\0" in path or "\\" in path:
            raise ConfigError(f"`files` names {path!r}, which is not a path within the folder of the task")
        try:
            long = max(len(os.fsencode(part)) for part in parts) > _LONGEST_NAME
            text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ConfigError(f"`files`: {path!r} holds half of a character (a lone surrogate)") from None
        if long:
            raise ConfigError(f"`files` names a file of more than {_LONGEST_NAME} bytes: {path[:40]!r}…")
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise ConfigError(f"`files` names a path of more than {_LONGEST_PATH:,} bytes: {path[:40]!r}…")
    places: dict[PurePosixPath, str] = {}
    for path in given:
        if (first := places.setdefault(PurePosixPath(path), path)) != path:
            raise ConfigError(f"`files` names one file twice, as {first!r} and as {path!r}")
    if inner := next((path for path in places if not places.keys().isdisjoint(path.parents)), None):
        raise ConfigError(f"`files` names {str(inner)!r}, and a folder of it as a file")
    return dict(given)


MOST_BYTES = 1 << 30
_STRUCTURED = ("files", "checks", "budget", "distribution")
"""Columns of a CSV file whose cells hold JSON."""


@dataclass(frozen=True, slots=True)
class NumberedTask:
    """A task and its position in the file.

    `number` distinguishes identical tasks: the first has 1, the second 2, and so on.
    """

    task: BatchTask
    place: int
    number: int = 1
    source: str = ""
    """A folder to copy into the task's folder at its beginning; empty for none."""

    @property
    def name(self) -> str:
        """The key of the task's stored data. It stays the same as long as the task in the file does."""
        return self.task.key if self.number == 1 else f"{self.task.key}-{self.number}"

    @property
    def label(self) -> str:
        """The name of the task as it is shown."""
        return self.task.id or str(self.place)


def read_tasks(path: Path) -> list[NumberedTask]:
    """Return all tasks in a file. Raises `ConfigError`, which names the file, the position and the error."""
    readers = {".jsonl": _lines, ".ndjson": _lines, ".csv": _table, ".yaml": _list, ".yml": _list}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ConfigError(f"{path.name} is not a task file: it has to end in .jsonl, .csv or .yaml.")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{path.name} is larger than 1 GB; split it.")
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path.name} is not encoded in UTF-8; save it as UTF-8.") from None
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
        first, key = called.setdefault(numbered.label, (where, task.key))
        if key != task.key:
            raise ConfigError(
                f"{path.name}, {where}: the id {numbered.label!r} is taken by another task ({first}); "
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
            raise ConfigError(f"{name}, line {number}: is not JSON ({told}).") from None


def _table(name: str, text: str) -> Iterator[tuple[str, Any]]:
    csv.field_size_limit(MOST_BYTES)
    rows = csv.DictReader(io.StringIO(text), strict=True)
    try:
        unknown = [column for column in rows.fieldnames or () if column not in FIELDS]
        if unknown:
            raise ConfigError(f"{name}: the column {unknown[0]!r} is unknown; there are {', '.join(FIELDS)}.")
        names = list(rows.fieldnames or ())
        if twice := [column for column in names if names.count(column) > 1]:
            raise ConfigError(f"{name}: the column {twice[0]!r} appears twice.")
        for row in rows:
            if not any(row.values()):
                continue  # as a spreadsheet writes below the last task
            where = f"line {rows.line_num}"
            if None in row:
                raise ConfigError(f"{name}, {where}: has more values than columns.")
            yield where, {column: _cell(name, where, column, value) for column, value in row.items() if value}
    except csv.Error as error:
        raise ConfigError(f"{name}, line {rows.line_num}: is not a table ({error}).") from None


def _cell(name: str, where: str, column: str, value: str) -> Any:
    if column not in _STRUCTURED:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise ConfigError(f"{name}, {where}: `{column}` has to be JSON.") from None


def _list(name: str, text: str) -> Iterator[tuple[str, Any]]:
    from tools.kit.yaml_text import YamlError, YamlForm, load_yaml

    try:
        given = load_yaml(text, YamlForm("a task file", depth=64, values=1_000_000))
    except YamlError as error:
        where = f", line {error.line}" if error.line else ""
        raise ConfigError(f"{name}{where}: is not YAML ({error.message}).") from None
    if isinstance(given, dict) and list(given) == ["tasks"]:
        given = given["tasks"]
    if not isinstance(given, list):
        raise ConfigError(f"{name}: has to be a list of tasks.")
    for number, each in enumerate(given, 1):
        yield f"task {number}", each
