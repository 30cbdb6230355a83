"""Suites of tasks with checks: their folder and their file."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.automation.batch.task import BatchTask, task_of, with_image
from agent.automation.evaluation.figures import CalibrationSet, bounded_text, pairs_in
from agent.errors import ConfigError
from tools.kit.yaml_text import MappingNode, Node, SequenceNode, YamlError, YamlForm, compose_yaml, load_yaml

LARGEST = 20_000_000
"""The maximum size of a file in bytes."""
_MOST_VALUES = 1_000_000
"""The maximum number of values in a file, with aliases expanded."""
_DEEPEST = 64


def read_mapping(path: Path, known: Sequence[str] | None) -> dict[str, Any]:
    """Return the mapping in a YAML file; empty for an empty file. `known` are the allowed keys, None for any.

    Raises `ConfigError`, which names the file and the error.
    """
    text = bounded_text(path, LARGEST, "put long texts into `workspace` of the task")
    given = _parse_yaml(path, text)
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise ConfigError(f"{path} has to be a mapping.")
    unknown = [str(key) for key in given if known is not None and key not in known]
    if unknown:
        raise ConfigError(f"{path}: `{unknown[0]}` is unknown; there are {', '.join(known or ())}.")
    return given


def _parse_yaml(path: Path, text: str) -> Any:
    form = YamlForm("a suite", depth=_DEEPEST, values=_MOST_VALUES)
    try:
        node = compose_yaml(text, form)
        if node is not None:
            _values(path, node, 0)
        return load_yaml(text, form)
    except YamlError as error:
        where = f", line {error.line}," if error.line else ""
        raise ConfigError(f"{path}{where} is not YAML: {error.message}.") from None


def _values(path: Path, node: Node, depth: int, known: dict[int, int] | None = None) -> int:
    """Return the number of values in a YAML node, with aliases expanded.

    Raises `ConfigError` for too many values, too deep nesting, and duplicate keys.
    """
    known = {} if known is None else known
    if id(node) in known:
        return known[id(node)]
    if depth > _DEEPEST:
        raise ConfigError(f"{path}: is nested deeper than {_DEEPEST} levels.")
    count = 1
    if isinstance(node, MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen and name != "<<":
                raise ConfigError(f"{path}, line {key.start_mark.line + 1}: `{name[:60]}` appears twice.")
            seen.add(name)
            count += _values(path, value, depth + 1, known)
    elif isinstance(node, SequenceNode):
        count += sum(_values(path, each, depth + 1, known) for each in node.value)
    if count > _MOST_VALUES:
        raise ConfigError(f"{path}: holds more than {_MOST_VALUES:,} values once its aliases are expanded.")
    known[id(node)] = count
    return count


_MOST_RUNS = 1_000
_LONGEST_NAME = 200
"""The maximum length in bytes of a task's name, which its folders contain."""
_BUNDLED = Path(__file__).with_name("suites")


@dataclass(frozen=True, slots=True)
class SuiteTask:
    """A task of a suite. `workspace` is the folder that is copied for it, if any."""

    name: str
    task: BatchTask
    workspace: Path | None


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: its tasks in order of their names, and how often each is run.

    `pairs` are used to calibrate its judge; None means the bundled pairs.
    """

    name: str
    description: str
    runs: int
    tasks: tuple[SuiteTask, ...]
    pairs: CalibrationSet | None = None

    @property
    def has_judge(self) -> bool:
        """True if a model judges any of its tasks."""
        return any(check.kind == "judge" for each in self.tasks for check in each.task.checks)


def bundled_suites() -> list[str]:
    """Return the names of the suites that are part of the program."""
    return sorted(path.name for path in _BUNDLED.iterdir() if (path / "suite.yaml").is_file())


def read_suite(where: str) -> Suite:
    """Return a suite, given by its folder or by the name of a bundled suite.

    Raises `ConfigError`, which names the file and the error.
    """
    root = Path(where)
    if not (root / "suite.yaml").is_file() and where in bundled_suites():
        root = _BUNDLED / where
    if not root.is_dir():
        raise ConfigError(
            f"{where} is not a folder of a suite; there are {', '.join(bundled_suites())}, or a path."
        )
    path = root / "suite.yaml"
    head = read_mapping(path, ("name", "description", "runs", "defaults", "pairs"))
    runs = head.get("runs", 1)
    if isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= _MOST_RUNS:
        raise ConfigError(f"{path}: `runs` has to be a number from 1 to {_MOST_RUNS}.")
    defaults = head.get("defaults") or {}
    if not isinstance(defaults, Mapping):
        raise ConfigError(f"{path}: `defaults` is a mapping.")
    name, description = (head.get(key) or "" for key in ("name", "description"))
    if not isinstance(name, str) or not isinstance(description, str):
        raise ConfigError(f"{path}: `name` and `description` have to be text.")
    tasks = tuple(_task(folder, defaults) for folder in _folders(root))
    return Suite(name or root.resolve().name, description, runs, tasks, _pairs(root, head.get("pairs")))


def _folders(root: Path) -> list[Path]:
    try:
        every = sorted((root / "tasks").iterdir())
        folders = [path for path in every if path.is_dir() and not path.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        folders = []
    except OSError as error:
        raise ConfigError(f"{root / 'tasks'} cannot be read: {error.strerror}.") from error
    if not folders:
        raise ConfigError(f"{root} has no tasks: each is a file tasks/NAME/task.yaml.")
    for folder in folders:
        name = folder.name
        if not name.isprintable() or len(os.fsencode(name)) > _LONGEST_NAME:
            raise ConfigError(
                f"{root / 'tasks'}: {name[:40]!r} is not a name for a task; names are printable "
                f"and have at most {_LONGEST_NAME} bytes."
            )
        if not _within(folder, root):
            raise ConfigError(f"{folder} is a link that leads out of the suite; put a copy there.")
    return folders


def _pairs(root: Path, given: object) -> CalibrationSet | None:
    if given is None:
        return None
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise ConfigError(f"{root / 'suite.yaml'}: `pairs` is the path of a file of labelled pairs.")
    path = root / given
    if not _within(path, root):
        raise ConfigError(f"{root / 'suite.yaml'}: `pairs` leads out of the suite; put the file there.")
    return pairs_in(path)


def _task(folder: Path, defaults: Mapping[str, Any]) -> SuiteTask:
    path = folder / "task.yaml"
    given = {**defaults, **read_mapping(path, None)}
    if given.get("id", folder.name) != folder.name:
        raise ConfigError(f"{path}: a task is called after its folder, {folder.name}; leave `id` out.")
    try:
        task = with_image(task_of({**given, "id": folder.name}), folder)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}.") from None
    if task.image:
        image = str((folder / task.image).absolute())
        task = replace(task, image=image, given={**task.given, "image": image})
    workspace = folder / "workspace"
    if not os.path.lexists(workspace):
        return SuiteTask(folder.name, task, None)
    key = hashlib.sha256(f"{task.key} {_content_of(workspace)}".encode()).hexdigest()[:24]
    return SuiteTask(folder.name, replace(task, key=key), workspace)


def _content_of(workspace: Path) -> str:
    """Return a hash of all files in a workspace.

    Raises `ConfigError` for files that cannot be read or copied, and for links that lead out of the copy.
    """
    if workspace.is_symlink() or not workspace.is_dir():
        raise ConfigError(f"{workspace} has to be a folder.")
    digest = hashlib.sha256()
    try:
        for folder, folders, files in os.walk(workspace, onerror=_raise):
            folders.sort()
            for path in (Path(folder) / name for name in sorted((*folders, *files))):
                kind = path.lstat().st_mode
                content = _content(path, kind, workspace)
                entry = (os.fsencode(path.relative_to(workspace)), oct(kind).encode(), content)
                digest.update(b"\0".join(entry) + b"\0")
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be read: {error.strerror}.") from error
    return digest.hexdigest()


def _content(path: Path, kind: int, workspace: Path) -> bytes:
    if stat.S_ISLNK(kind):
        target = path.readlink()
        if target.is_absolute() or not _within(path, workspace):
            raise ConfigError(f"{path} is a link that leads out of `workspace`; put a copy there.")
        return os.fsencode(target)
    if stat.S_ISREG(kind):
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    if not stat.S_ISDIR(kind):
        raise ConfigError(f"{path} is not a file, folder or link, and cannot be copied.")
    return b""


def _raise(error: OSError) -> None:
    raise error


def _within(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
