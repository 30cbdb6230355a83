"""The entry point of `hermes`: a safe search path, a first frame, then the program.

Hermes's packages have plain names (`app`, `agent`, `tools`) that a project may use too. So the current folder
and PYTHONPATH are removed from the search path before any of them is imported. The current folder is also
removed from PATH before a library searches it for a program.

Imports here delay the first frame, hence `os.path` instead of pathlib.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from typing import NoReturn

GARBAGE = (50_000, 20, 20)
"""New objects after which garbage is searched for, and how often older ones are (Python: 700, 10, 10)."""
START = (300_000, *GARBAGE[1:])
"""The same until the first search. A start creates fewer, and nearly all of them stay."""


def own_search_path(path: list[str], environ: Mapping[str, str], folder: str) -> list[str]:
    """Return `path` without the current folder `folder` and the entries of PYTHONPATH."""
    foreign = {os.path.realpath(entry) for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    foreign.add(os.path.realpath(folder))
    foreign.discard(os.path.realpath(os.path.dirname(__file__)))  # noqa: PTH120
    return [entry for entry in path if entry and os.path.realpath(entry) not in foreign]


def own_program_path(path: str) -> str:
    """Return PATH without entries relative to the current folder.

    A project could put its own `uname` or `docker` there. A leading `~` that the shell did not expand means
    the home folder, as in bash.
    """
    entries = (os.path.expanduser(entry) for entry in path.split(os.pathsep))  # noqa: PTH111
    return os.pathsep.join(entry for entry in entries if entry.startswith(os.sep))


def own_home(environ: MutableMapping[str, str]) -> None:
    """Make HOME an absolute path; the user database is used if HOME is empty, unset or relative.

    Otherwise rules that guard the home folder, and files in it, would refer to a different place in each
    folder. For an unknown user HOME is removed.
    """
    if environ.get("HOME", "").startswith(os.sep):
        return
    environ.pop("HOME", None)
    home = os.path.expanduser("~")  # noqa: PTH111
    if home.startswith(os.sep):
        environ["HOME"] = home


def search_garbage_after_start() -> None:
    """Search for garbage only after a start, and then never among the objects that it created."""
    gc.callbacks.append(_keep_objects)
    gc.set_threshold(*START)


def _keep_objects(phase: str, _info: object) -> None:
    # The full screen sets its own thresholds.
    if phase == "stop" and gc.get_threshold() == START:
        gc.freeze()
        gc.set_threshold(*GARBAGE)


def run_and_exit() -> NoReturn:
    """Run `hermes` and end the process with its exit code."""
    code = main()
    from tools.kit.process_exit import exit_process

    exit_process(code)


def main() -> int:
    """Run `hermes` and return its exit code."""
    try:
        folder = os.getcwd()  # noqa: PTH109
    except OSError:
        folder = os.sep
    own_home(os.environ)
    search_garbage_after_start()
    sys.path[:] = own_search_path(sys.path, os.environ, folder)
    os.environ["PATH"] = own_program_path(os.environ.get("PATH", "")) or os.defpath
    from app.tui.startup import skeleton

    try:
        if skeleton.show(sys.argv[1:]) is not None:
            # What is read now stays, so it is not searched for garbage; `app.tui.startup.handover` ends this.
            gc.disable()
        from tools.kit.deferred_methods import defer_methods
        from tools.kit.deferred_packages import defer_packages

        defer_methods()
        defer_packages()
        from app.main import main as run

        return run()
    except KeyboardInterrupt:
        return skeleton.let_end()
    finally:
        skeleton.leave()
