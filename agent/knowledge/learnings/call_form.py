"""Calls of tools as learnings compare them: two with one key have essentially the same arguments."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.knowledge.learnings.commands import CommandForm, command_form
from tools.text.words import shorten

LONGEST_SHOWN = 400
"""Characters of a call that are kept for people to read."""
COMMAND_TOOLS: Mapping[str, str] = {"terminal": "command"}
"""Tools that run a shell text, and which argument it is."""
_HOW_LONG = frozenset({"timeout", "notify_on_complete", "watch_patterns", "limit", "offset", "char_limit"})
"""Arguments that say how much is waited for or shown, not what is done."""
_PATHS = frozenset({"path", "workdir", "cwd", "folder", "file"})


@dataclass(frozen=True, slots=True)
class CallPlace:
    """Where a call is made. Both folders are absolute."""

    workspace: str
    cwd: str
    """The folder of the shell; that of the workspace for tools without one."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """One call, as far as it counts."""

    tool: str
    text: str
    """What is essential of its arguments, written one way."""
    shown: str
    """The call as it was made, for people: a command, or arguments."""
    key: str
    """The same for calls that are essentially the same."""
    timed_key: str
    """The same where the time that it is given is equal, too."""
    command: CommandForm | None = None
    """For tools that run one."""
    options: str = ""
    """What is given beside the command: `workdir=sub, background`."""


def call_form(tool: str, arguments: Mapping[str, Any], place: CallPlace) -> CallForm:
    """What is essential of a call. Pure; its work is in proportion to the arguments."""
    name = COMMAND_TOOLS.get(tool, "")
    given = {
        key: value
        for key, value in arguments.items()
        if key not in _HOW_LONG and value not in (None, False, "", [], {})
    }
    command, options = None, ""
    if name and isinstance(given.get(name), str):
        shown = str(given.pop(name))
        options = _listed(given)
        cwd = posixpath.normpath(posixpath.join(place.cwd, str(given.pop("workdir", ""))))
        command = command_form(shown, cwd, place.workspace)
        text = "\0".join([command.place, command.text, _canonical(given, place)])
    else:
        text = _canonical(given, place)
        shown = _listed(given)
    digest = hashlib.sha256(f"{tool}\0{text}".encode("utf-8", "replace")).hexdigest()[:32]
    timeout = arguments.get("timeout")
    timed = hashlib.sha256(f"{digest}\0{timeout}".encode()).hexdigest()[:32]
    return CallForm(tool, text, _short(shown), digest, timed, command, _short(options))


def _canonical(given: Mapping[str, Any], place: CallPlace) -> str:
    if not given:
        return ""
    plain = {key: _value(key, value, place) for key, value in given.items()}
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, default=str)


def _value(key: str, value: Any, place: CallPlace) -> Any:
    if not isinstance(value, str):
        return value
    if key in _PATHS:
        path = posixpath.normpath(posixpath.join(place.workspace, value.strip()))
        inside = path == place.workspace or path.startswith(f"{place.workspace}/")
        return posixpath.relpath(path, place.workspace) if inside else path
    return "\n".join(line.rstrip() for line in value.strip().splitlines())


def _listed(given: Mapping[str, Any]) -> str:
    """Arguments for people: `path=src, pattern=x`."""
    return ", ".join(
        key if value is True else f"{key}={value if isinstance(value, str) else _json(value)}"
        for key, value in given.items()
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return shorten(line, LONGEST_SHOWN)
