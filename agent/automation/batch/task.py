"""One task of a batch: what is asked, in which files, how the answer is checked."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from agent.automation.batch.distribution import Distribution, distribution_of
from agent.automation.checks.check import Check, checks_of
from agent.core.attachments import AttachmentStore
from agent.errors import ConfigError, HermesError
from agent.session.spending.budget import Budget

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
    """A task as it stands in a file. `key` is the hash of all that decides about its answer."""

    prompt: str
    key: str
    id: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files of its folder, by relative path."""
    image: str = ""
    """Path of an image that is shown with the prompt."""
    checks: tuple[Check, ...] = ()
    budget: Budget = field(default_factory=Budget)
    model: str = ""
    toolsets: tuple[str, ...] = ()
    distribution: Distribution = field(default_factory=dict)
    """The chances of toolsets, in lieu of `toolsets`."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """As the file says it, for another process."""


def task_of(given: object) -> BatchTask:
    """A task from what a file says. Raises `ConfigError` with a clause about what is wrong."""
    if not isinstance(given, Mapping):
        raise ConfigError("a task is a mapping with `prompt`")
    if unknown := [str(name) for name in given if name not in FIELDS]:
        raise ConfigError(f"`{unknown[0]}` is no part of a task; those are {', '.join(FIELDS)}")
    prompt = given.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise ConfigError("`prompt` is missing or empty")
    if given.get("toolsets") and given.get("distribution"):
        raise ConfigError("`toolsets` and `distribution` exclude each other")
    return BatchTask(
        prompt=prompt,
        key=_hashed(given),
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
    """The task with a key that holds what its image is, not only where. `base` is where that is found from.

    Raises `ConfigError` with a clause where it cannot be read.
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
    """A budget from a mapping of measures to ceilings. Raises `ConfigError` with a clause."""
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


def _hashed(given: Mapping[str, Any]) -> str:
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
    """Checks without what no command and no path can hold."""
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
            raise ConfigError(f"`files` names {path!r}, which is no path within the folder of the task")
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
