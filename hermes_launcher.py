"""The entry point of `hermes`: a search path of our own, a first frame, then the program.

Our packages have plain names (`app`, `agent`, `tools`) that a project may use
as well. So the current folder and PYTHONPATH leave the search path before
anything of ours is imported, and the current folder leaves PATH before a library
looks there for a program.

What is imported here is waited for with a blank screen, hence `os.path` instead of pathlib.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping


def own_search_path(path: list[str], environ: Mapping[str, str], folder: str) -> list[str]:
    """`path` without the current folder `folder` and the entries of PYTHONPATH."""
    foreign = {os.path.realpath(entry) for entry in environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    foreign.add(os.path.realpath(folder))
    foreign.discard(os.path.realpath(os.path.dirname(__file__)))  # noqa: PTH120
    return [entry for entry in path if entry and os.path.realpath(entry) not in foreign]


def own_program_path(path: str) -> str:
    """PATH without entries that mean whatever folder a program is started in.

    A project could put its own `uname` or `docker` there. A `~` that the shell left in
    place is the home folder, as bash takes it.
    """
    entries = (os.path.expanduser(entry) for entry in path.split(os.pathsep))  # noqa: PTH111
    return os.pathsep.join(entry for entry in entries if entry.startswith(os.sep))


def own_home(environ: MutableMapping[str, str]) -> None:
    """Make HOME a full path: the one of the user database where it is empty, unset or depends on a folder.

    Rules that guard the home folder, and our own files in it, would else mean another place in each
    folder. Where nobody knows the user, HOME is left out.
    """
    if environ.get("HOME", "").startswith(os.sep):
        return
    environ.pop("HOME", None)
    home = os.path.expanduser("~")  # noqa: PTH111
    if home.startswith(os.sep):
        environ["HOME"] = home


def main() -> int:
    """Run `hermes` and return its exit code."""
    try:
        folder = os.getcwd()  # noqa: PTH109
    except OSError:
        folder = os.sep
    own_home(os.environ)
    sys.path[:] = own_search_path(sys.path, os.environ, folder)
    os.environ["PATH"] = own_program_path(os.environ.get("PATH", "")) or os.defpath
    from app.tui.startup import skeleton

    try:
        if skeleton.show(sys.argv[1:]) is not None:
            # What is read now stays, so it is not searched for garbage; `app.tui.startup.handover` ends this.
            gc.disable()
        from app.main import main as run

        return run()
    except KeyboardInterrupt:
        return 130
    finally:
        skeleton.leave()
