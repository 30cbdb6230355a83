"""The Python that runs a script, and its environment."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.code.data import Mode
from tools.results import ToolError

PROGRAM = Path(__file__).resolve().parent / "child"
"""The folder that holds the program of the child; also what it takes out of `sys.path` again."""

_START = "import sys; sys.path.insert(0, sys.argv[1]); from hermes_child.main import main; sys.exit(main())"
_VENVS = (".venv", "venv", "env")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python and how it is started. `is_ours`: it reads code that we have compiled."""

    path: str
    flags: tuple[str, ...]
    sys_path: tuple[str, ...] = ()
    """What scripts find first."""
    is_ours: bool = False

    def roots(self) -> tuple[Path, ...]:
        """The folders it is made of, by either name."""
        given = Path(self.path)
        return tuple({path.parent.parent for path in (given, given.resolve())})

    def argv(self) -> list[str]:
        return [self.path, *self.flags, "-X", "utf8", "-c", _START, str(PROGRAM)]


def choose(mode: Mode, folder: Path, environ: Mapping[str, str]) -> Interpreter:
    """The interpreter for scripts of a mode that run in `folder`.

    `strict` is our own, isolated, so that neither the project nor the user's
    packages can change what a script means. `project` is the interpreter of the
    virtual environment of the folder or of one above it, else the active one,
    else `python3`. Raises `ToolError` when there is none.
    """
    if mode == "strict":
        return Interpreter(_base_python(), ("-I", "-S"), is_ours=True)
    found = _project_python(folder, environ) or shutil.which("python3", path=environ.get("PATH"))
    if found is None:
        raise ToolError(
            "The project mode found no Python: neither a virtual environment in the project nor python3 "
            "on PATH. Create one with `python3 -m venv .venv`, or use the strict mode."
        )
    return Interpreter(found, (), (str(folder),))


def _base_python() -> str:
    """Our interpreter without the environment it may stand in: scripts find the standard library only."""
    return os.path.realpath(sys.executable)


def _project_python(folder: Path, environ: Mapping[str, str]) -> str | None:
    for place in (folder, *folder.parents):
        for name in _VENVS:
            python = place / name / "bin" / "python"
            if (place / name / "pyvenv.cfg").is_file() and os.access(python, os.X_OK):
                return str(python)
        if (place / ".git").exists():
            break
    active = environ.get("VIRTUAL_ENV")
    if active and os.access(python := Path(active) / "bin" / "python", os.X_OK):
        return str(python)
    return None
