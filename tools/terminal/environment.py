"""The environment of commands: ours, without our secrets and without our own virtual environment.

It is no list of allowed names: compilers, package managers and the user's own programs take
hundreds of variables nobody can list, and a build that lacks one fails in ways nobody
understands. A variable is left out when its name or its value says that it is secret.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from tools.redact import is_secret_name, redact

# Files that a shell would run at its start, and options it would take over.
_SHELL_STARTUP = frozenset({"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"})
_OUR_PYTHON = frozenset({"PYTHONHOME", "__PYVENV_LAUNCHER__"})
_FAR = frozenset({"LANG", "LANGUAGE", "TZ", "NO_COLOR"})
# Nobody sits at the terminal of a command: nothing may page, prompt or draw.
_FIXED = {"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb"}


def child_environment(
    environ: Mapping[str, str],
    passthrough: Collection[str] = (),
    *,
    prefix: str = sys.prefix,
    base_prefix: str = sys.base_prefix,
) -> dict[str, str]:
    """The environment a command gets.

    Variables with secret names, and those whose values hold a secret such as the
    password of a database address, are left out unless `passthrough` names them.
    `prefix` and `base_prefix` are those of the Python that runs Hermes: when they
    differ, it runs in a virtual environment of its own, which is none of a
    command's business. The user's own virtual environment stays.
    """
    child = {
        name: value
        for name, value in environ.items()
        if (name in passthrough or not (is_secret_name(name) or redact(value) != value))
        and name not in _SHELL_STARTUP
        and name not in _OUR_PYTHON
    }
    if prefix != base_prefix:
        _forget_venv(child, Path(prefix))
    return child | _FIXED


def far_environment(
    environ: Mapping[str, str], passthrough: Collection[str], own: Mapping[str, str]
) -> dict[str, str]:
    """What a command gets beside the other machine's own: language, what `passthrough` names, and `own`."""
    child = {
        name: value
        for name, value in environ.items()
        if name in passthrough or name in _FAR or name.startswith("LC_")
    }
    return child | _FIXED | dict(own)


def _forget_venv(child: dict[str, str], prefix: Path) -> None:
    if "VIRTUAL_ENV" in child and _same(Path(child["VIRTUAL_ENV"]), prefix):
        del child["VIRTUAL_ENV"]
        child.pop("VIRTUAL_ENV_PROMPT", None)
    _drop_entries(child, "PATH", lambda path: _same(path, prefix / "bin"))
    _drop_entries(child, "PYTHONPATH", lambda path: path.is_relative_to(prefix))


def _drop_entries(child: dict[str, str], name: str, ours: Callable[[Path], bool]) -> None:
    """Take the paths that are `ours` out of a list variable; an emptied one goes altogether."""
    entries = child.pop(name, "").split(os.pathsep)
    kept = [entry for entry in entries if not entry or not ours(Path(entry))]
    if any(kept):
        child[name] = os.pathsep.join(kept)


def _same(one: Path, two: Path) -> bool:
    return os.path.normpath(one) == os.path.normpath(two)
