"""Shell scripts of the workspace: read, so that what they hold can be judged line by line."""

from __future__ import annotations

import os
import re
import shlex
import stat
from pathlib import Path

from agent.safety.commands.call import Call
from agent.safety.commands.environments import SETTINGS
from agent.safety.places import absolute
from agent.safety.shell.marks import GLOBS, UNKNOWN, literal

LARGEST = 20_000
"""Bytes of a script that is read."""

_SHELLS = frozenset({"sh", "bash", "dash"})
_SHEBANG = re.compile(r"#!\s*(?:/usr)?/bin/(?:env\s+)?(?:ba|da)?sh\s*(?:-[eux]+\s*)?\n")


def text(call: Call) -> str | None:
    """What a call of a script in the workspace would run, with its arguments set; None when it is not known.

    A script that another part of the same command may have changed is not known.
    """
    sourced = call.word in ("source", ".")
    by_shell = call.name in _SHELLS and "/" not in call.word.removeprefix("/bin/").removeprefix("/usr/bin/")
    arguments = list(call.arguments)
    file = call.word
    if sourced:
        file = arguments.pop(0) if len(arguments) == 1 else ""
    elif by_shell:
        while arguments and re.fullmatch(r"-[eux]+", arguments[0]):
            arguments.pop(0)
        file = arguments.pop(0) if arguments else ""
    odd = any(mark in argument for argument in (file, *arguments) for mark in (UNKNOWN, *GLOBS))
    if odd or not file or file.startswith("-") or not call.ground.inside(call.path(file)):
        return None
    path = absolute(call.path(file))
    if len(known := call.held.get(path, ())) == 1:
        held = known[0] if UNKNOWN not in known[0] else None
    elif file.rpartition("/")[2] in call.named:
        return None
    else:
        held = held_there(path)
    if held is not None and sourced:
        # What it sets is not known to the lines behind it, so it may do nothing else.
        secret = call.ground.read(call.path(file)) is not None
        plain = not secret and all(map(SETTINGS.fullmatch, held.splitlines()))
        return held if plain else None
    if held is None or not (by_shell or _SHEBANG.match(held)):
        return None
    given = shlex.join(map(literal, arguments))
    return f"set -- {given}\n{held}" if given else held


def held_there(path: str) -> str | None:
    """The text of a file; None when there is none that is read."""
    try:
        status = os.stat(path)  # noqa: PTH116 - as cheap as it gets
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            return None
        return Path(path).read_text("utf-8")
    except (OSError, ValueError):
        return None
