"""Checks as data, and reading them from a file.

A check is a mapping with one key, its kind: `{contains: "Paris"}`, `{file: {path: a.py, regex: "def"}}`,
`{tools: {subset: [read_file]}}`. `not: true` beside it turns it round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal, get_args

from agent.errors import ConfigError
from tools.text.words import shorten

Kind = Literal["contains", "exact", "regex", "json_schema", "file", "command", "tools", "judge"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TEXTS = ("contains", "exact", "regex")
ORDERS = ("exact", "subset", "order")


@dataclass(frozen=True, slots=True)
class Check:
    """One condition. `given` is what its kind needs, as text or a mapping."""

    kind: Kind
    given: Any
    negated: bool = False

    @property
    def name(self) -> str:
        """How a report calls it."""
        shown = self.given if isinstance(self.given, str) else _shown(self.given)
        shown = " ".join(str(shown).split())
        return f"{'not ' if self.negated else ''}{self.kind}: {shorten(shown, 60)}"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a check passed; None where that could not be told. `detail` says why."""

    check: str
    passed: bool | None
    detail: str = ""


def checks_of(given: object) -> tuple[Check, ...]:
    """Checks from what a file says. Raises `ConfigError` with a clause about what is wrong."""
    if isinstance(given, Mapping):
        given = [{kind: value} for kind, value in given.items()]
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ConfigError("`checks` is a list, such as [{contains: Paris}]")
    return tuple(check_of(each) for each in given)


def check_of(given: object) -> Check:
    """One check. Raises `ConfigError` with a clause about what is wrong."""
    if not isinstance(given, Mapping):
        raise ConfigError("a check is a mapping, such as {contains: Paris}")
    kinds = [kind for kind in given if kind != "not"]
    if len(kinds) != 1 or kinds[0] not in KINDS:
        said = ", ".join(map(str, kinds)) or "nothing"
        raise ConfigError(f"a check has one kind of {', '.join(KINDS)}; this one has {said}")
    (kind,) = kinds
    value, negated = given[kind], given.get("not", False)
    if not isinstance(negated, bool):
        raise ConfigError("`not` is true or false")
    _require(kind, value)
    return Check(kind, value, negated)


def _require(kind: Kind, value: Any) -> None:
    if kind in TEXTS:
        _require_text(kind, kind, value)
    elif kind == "json_schema":
        if not isinstance(value, Mapping | bool):
            raise ConfigError("`json_schema` is a schema as a mapping")
    elif kind == "file":
        _require_file(value)
    elif kind == "command":
        _require_command(value)
    elif kind == "tools":
        orders = list(value) if isinstance(value, Mapping) else []
        if len(orders) != 1 or orders[0] not in ORDERS or not _texts(value[orders[0]]):
            raise ConfigError(f"`tools` is a list of names under one of {', '.join(ORDERS)}")
    elif not isinstance(value, str | Mapping) or not value:
        raise ConfigError("`judge` is a rubric, as text")


def _require_file(value: Any) -> None:
    path = value.get("path") if isinstance(value, Mapping) else value
    if not isinstance(path, str) or not path or path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise ConfigError("`file` needs `path`, a path within the folder of the task")
    if not isinstance(value, Mapping):
        return
    _require_known("file", value, ("path", "exists", *TEXTS))
    if not isinstance(value.get("exists", True), bool):
        raise ConfigError("`file.exists` is true or false")
    for kind in TEXTS:
        if kind in value:
            _require_text(f"file.{kind}", kind, value[kind])


def _require_command(value: Any) -> None:
    run = value.get("run") if isinstance(value, Mapping) else value
    if not isinstance(run, str) or not run.strip():
        raise ConfigError("`command` is a command line, or a mapping with `run`")
    if not isinstance(value, Mapping):
        return
    _require_known("command", value, ("run", "exit", "contains", "seconds"))
    code, seconds = value.get("exit", 0), value.get("seconds", 1)
    if isinstance(code, bool) or not isinstance(code, int):
        raise ConfigError("`command.exit` is an exit code, a whole number")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= 86_400:
        raise ConfigError("`command.seconds` is a number above 0 and at most 86400")
    if not isinstance(value.get("contains", ""), str):
        raise ConfigError("`command.contains` has to be text")


def _require_known(name: str, value: Mapping[str, Any], known: Sequence[str]) -> None:
    if unknown := [str(key) for key in value if key not in known]:
        raise ConfigError(f"`{name}.{unknown[0]}` is unknown; there are {', '.join(known)}")


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _require_text(name: str, kind: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"`{name}` has to be text")
    if kind == "regex":
        try:
            re.compile(value)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(f"`{name}` is no regular expression: {error}") from None


def _shown(given: Any) -> str:
    if isinstance(given, Mapping):
        return ", ".join(f"{key} {value}" for key, value in given.items())
    return str(given)
