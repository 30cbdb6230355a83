"""Starting the programs of the senses whose libraries are too large for this process."""

from __future__ import annotations

import sys
from pathlib import Path


def command(program: Path) -> tuple[str, ...]:
    """The argument list of a Python program that finds the libraries of this one."""
    run = f"runpy.run_path({str(program)!r}, run_name='__main__')"
    return (sys.executable, "-c", f"import runpy, sys; sys.path[:] = {sys.path!r}; {run}")
