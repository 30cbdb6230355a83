"""The folders that are kept track of at all."""

from __future__ import annotations

import os
from pathlib import Path

from agent.core.home import Home

_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"),
    *("/System", "/Library", "/Applications", "/private/etc", "/private/var"),
)
_SHARED = ("/tmp", "/var/tmp", "/private/tmp", "/home", "/Users", "/mnt", "/media", "/opt", "/srv")


def refusal(root: Path, home: Home) -> str:
    """Why steps below `root` (resolved) are not kept, in a sentence; empty when they are.

    Reading all of such a folder would take hours and gigabytes, or is nobody's business.
    """
    person = Path.home() if _knows_home() else None
    within_temporary = any(Path(place) in root.parents for place in ("/tmp", "/var/tmp", "/private/tmp"))
    if root == Path("/"):
        return f"{root} is the whole system"
    if person is not None and (root == person or root in person.parents):
        return f"{root} is or holds the home folder"
    if str(root) in _SHARED:
        return f"{root} is shared by everybody"
    if not within_temporary and any(root == Path(place) or Path(place) in root.parents for place in _SYSTEM):
        return f"{root} belongs to the system"
    if home.root == root or home.root in root.parents:
        return f"{root} is where Hermes keeps its own files"
    try:
        owner = root.stat().st_uid
    except OSError as error:
        return f"{root} cannot be looked at: {(error.strerror or str(error)).lower()}"
    if owner != os.getuid():
        return f"{root} belongs to somebody else"
    return ""


def _knows_home() -> bool:
    try:
        Path.home()
    except RuntimeError:
        return False
    return True
