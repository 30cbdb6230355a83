"""Single files that may be deleted unasked: scraps by their name or place, and what is no loss.

A folder is never one of them, nor is what a pattern stands for.
"""

from __future__ import annotations

import os
import re
import stat

from agent.safety.commands.call import Call
from agent.safety.look import current
from agent.safety.places import absolute
from agent.safety.shell.marks import literal, words

MOVERS = words("mv cp ln install rename git rsync gmv gcp")
"""Programs after which a name may stand for a file that was there before."""

_NAMES = re.compile(
    r"te?mp(?:[\d_-][\w-]*)?(?:\.\w+)?|scratch(?:[\d_-][\w-]*)?(?:\.\w+)?|debug_[\w-]+\.\w+|nohup\.out"
    r"|a\.out|out(?:put)?\.txt|.*~|.*\.(?:temp|pid)"
)


def is_scrap(call: Call, operand: str) -> bool:
    """Whether deleting one file of this name loses nothing anybody would miss."""
    path = call.path(operand)
    # Marks are no ASCII characters; whatever may not be written to may not be deleted either.
    if not path.isascii() or operand.endswith("/") or call.ground.write(path):
        return False
    full = absolute(path)
    if not call.ground.inside(path):
        return is_new(full) or _is_file(full)  # a place for scraps, as it may be written to
    name = full.rpartition("/")[2]
    if _NAMES.fullmatch(literal(name)) or full in call.made:
        return True
    # Without a boundary it is not known whether commands run on this machine.
    return call.ground.confined and name not in call.named and is_new(full)


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def is_new(path: str) -> bool:
    """Whether nothing has this name on this machine."""
    if current().is_free(path):
        return True
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return False
