"""The environment of commands and scripts: what is on the list of `tools.terminal.inherited`, and no secrets.

A list and not a filter: nobody can name all variables that hold secrets, so what is not known
stays here. What a person's own programs need besides, `terminal.env_passthrough` names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path

from tools.terminal.inherited import INHERITED, TRAVELLING, NameList
from tools.text.redact import is_secret_name, redact

# Files that a shell would run at its start, and options it would take over.
_SHELL_STARTUP = frozenset({"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS"})
_OUR_PYTHON = frozenset({"PYTHONHOME", "__PYVENV_LAUNCHER__"})
_NEVER = _SHELL_STARTUP | _OUR_PYTHON
# Nobody sits at the terminal of a command: nothing may page, prompt or draw.
_FIXED = {"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "TERM": "dumb"}

_SAYS_MISSING = re.compile(
    r"unbound variable|parameter (?:null or )?not set|KeyError|missing"
    r"|(?:not|n't|never|un) ?(?:set|defined|found|exist)|required|must be|is empty|undefined|provide",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_LOOKED_AT = 20_000
"""Characters at the end of a failed command's output in which a missing variable is looked for."""
_SHORTEST = 3
"""Letters of a name that is taken for one wherever it stands."""


def child_environment(
    environ: Mapping[str, str],
    passthrough: Collection[str] = (),
    *,
    prefix: str = sys.prefix,
    base_prefix: str = sys.base_prefix,
) -> dict[str, str]:
    """The environment a command gets: the variables on the list, and those `passthrough` names.

    A name in `passthrough` goes as it is. A pattern there (`FOO_*`) adds to the list: as with
    what stands on it, a variable with a secret name, or whose value holds a secret such as the
    password of a database address, is left out. `prefix` and `base_prefix` are those of the
    Python that runs Hermes: when they differ, it runs in a virtual environment of its own,
    which is none of a command's business. The user's own virtual environment stays.
    """
    child = _chosen(environ, passthrough, INHERITED)
    if prefix != base_prefix:
        _forget_venv(child, Path(prefix))
    return child | _FIXED


def far_environment(
    environ: Mapping[str, str], passthrough: Collection[str], own: Mapping[str, str]
) -> dict[str, str]:
    """What a command gets beside the other machine's own: what means the same there, what
    `passthrough` names, and `own`.
    """
    return _chosen(environ, passthrough, TRAVELLING) | _FIXED | dict(own)


def missing_hint(output: str, withheld: Collection[str]) -> tuple[str, str]:
    """The variable a failed command seems to miss and what to say about it; both empty if there is none.

    `withheld` are the variables that were kept from it. Looks at lines of the end of `output` that
    name one of them and say that something is missing.
    """
    if not withheld:
        return "", ""
    for line in output[-_LOOKED_AT:].splitlines():
        if _SAYS_MISSING.search(line) is None:
            continue
        for word in _WORD.findall(line):
            if len(word) >= _SHORTEST and word in withheld:
                return word, (
                    f"{word} is set, but kept from commands; the user can add it to terminal.env_passthrough "
                    "in config.yaml."
                )
    return "", ""


def _chosen(environ: Mapping[str, str], passthrough: Collection[str], listed: NameList) -> dict[str, str]:
    asked = NameList(passthrough)
    return {
        name: value
        for name, value in environ.items()
        if name not in _NEVER
        and (name in asked.exact or ((name in listed or name in asked) and _is_open(name, value)))
    }


@lru_cache(maxsize=512)
def _is_open(name: str, value: str) -> bool:
    return not is_secret_name(name) and redact(value) == value


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
