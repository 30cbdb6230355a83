"""Suites as folders: `suite.yaml`, and for each task `tasks/NAME/task.yaml` and `workspace/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agent.batch.task import BatchTask, task_of
from agent.errors import ConfigError

_MOST_RUNS = 1_000
_BUNDLED = Path(__file__).with_name("suites")


@dataclass(frozen=True, slots=True)
class SuiteTask:
    """A task of a suite. `workspace` is the folder that is copied for it, if there is one."""

    name: str
    task: BatchTask
    workspace: Path | None


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: its tasks by name, and how often each runs."""

    name: str
    description: str
    runs: int
    tasks: tuple[SuiteTask, ...]


def bundled() -> list[str]:
    """Names of the suites that ship with the program."""
    return sorted(path.name for path in _BUNDLED.iterdir() if (path / "suite.yaml").is_file())


def read_suite(where: str) -> Suite:
    """A suite by folder, or by the name of one that ships. Raises `ConfigError` naming file and fault."""
    root = Path(where)
    if not (root / "suite.yaml").is_file() and where in bundled():
        root = _BUNDLED / where
    if not root.is_dir():
        raise ConfigError(f"{where} is no folder of a suite; there are {', '.join(bundled())}, or a path.")
    head = _mapping(root / "suite.yaml", ("name", "description", "runs", "defaults"))
    runs = head.get("runs", 1)
    if isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= _MOST_RUNS:
        raise ConfigError(f"{root / 'suite.yaml'}: `runs` has to be a number from 1 to {_MOST_RUNS}.")
    defaults = head.get("defaults") or {}
    if not isinstance(defaults, Mapping):
        raise ConfigError(f"{root / 'suite.yaml'}: `defaults` is a mapping.")
    folders = sorted(path.parent for path in root.glob("tasks/*/task.yaml"))
    if not folders:
        raise ConfigError(f"{root} has no tasks: each is a file tasks/NAME/task.yaml.")
    tasks = tuple(_task(folder, defaults) for folder in folders)
    return Suite(str(head.get("name") or root.name), str(head.get("description") or ""), runs, tasks)


def _task(folder: Path, defaults: Mapping[str, Any]) -> SuiteTask:
    path = folder / "task.yaml"
    given = {**defaults, **_mapping(path, None)}
    try:
        task = task_of({**given, "id": folder.name})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}.") from None
    workspace = folder / "workspace"
    return SuiteTask(folder.name, task, workspace if workspace.is_dir() else None)


def _mapping(path: Path, known: tuple[str, ...] | None) -> dict[str, Any]:
    try:
        given = yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is no YAML: {getattr(error, 'problem', None) or error}.") from None
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise ConfigError(f"{path} has to be a mapping.")
    unknown = [str(key) for key in given if known is not None and key not in known]
    if unknown:
        raise ConfigError(f"{path}: `{unknown[0]}` is unknown; there are {', '.join(known or ())}.")
    return given
