"""Files that hold secrets or guard the system, and that tools leave alone.

Well-known places (`tools.secret_places`), a guard against accidents. The gate decides
everything else, and the sandbox is what confines commands.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.results import ToolError
from tools.secret_places import NAMES, PUBLIC_NAMES, READABLE, STORES, STORES_ANYWHERE, SYSTEM, any_of, rows

PROTECTED_OPTION = "files.protected"
"""Option of tools: further files or folders, as absolute paths, that may be neither read nor changed."""

_GUARDED_IN_HOME = (".config/systemd", "Library/LaunchAgents")
_GUARDED_IN_SYSTEM = (
    "/etc/passwd*",
    "/etc/group*",
    "/etc/pam.d",
    "/etc/ssh",
    "/etc/systemd",
    "/etc/ld.so.preload",
    "/etc/cron*",
    "/var/spool/cron",
    "/lib/systemd",
    "/usr/lib/systemd",
    "/run/systemd",
    "/boot",
    "/Library/LaunchDaemons",
    "/Library/LaunchAgents",
)


def _exactly(patterns: Iterable[str]) -> re.Pattern[str]:
    """Matches the names that fit one of the patterns."""
    return re.compile(f"(?:{any_of(patterns)})\\Z", re.IGNORECASE)


def _at_or_below(patterns: Iterable[str]) -> re.Pattern[str]:
    """Matches the paths that fit one of the patterns, and all paths below them."""
    return re.compile(f"(?:{any_of(patterns)})(?:/|\\Z)", re.IGNORECASE)


_STORES = rows(STORES_ANYWHERE + STORES)
_IS_SECRET_NAME = _exactly(rows(NAMES))
_IS_PUBLIC_NAME = _exactly(rows(PUBLIC_NAMES))
_IS_SECRET_IN_HOME = _at_or_below(_STORES)
_IS_READABLE_IN_HOME = _exactly(rows(READABLE))
_IS_SECRET_IN_SYSTEM = _at_or_below(rows(SYSTEM))
_IS_GUARDED_IN_HOME = _at_or_below((*_GUARDED_IN_HOME, ".ssh"))
_IS_GUARDED_IN_SYSTEM = _at_or_below(_GUARDED_IN_SYSTEM)


_FOREIGN_HOME = re.compile(r"/(?:home|Users)/[^/]+/")


class CredentialGuard:
    """Which paths are off limits, for one set of options. Making one looks at the disk."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        homes = _homes()
        self._homes = tuple(f"{home}/" for home in homes)
        places = [form for text in options.get(PROTECTED_OPTION, ()) for form in _both_forms(str(text))]
        places += _linked_stores(homes)
        self._protected = frozenset(places)

    def hides(self, path: Path) -> bool:
        """Whether the content of `path` (resolved) is kept from the model."""
        text = str(path)
        if self._is_protected(text) or _IS_SECRET_IN_SYSTEM.match(text):
            return True
        below = self._below_home(text)
        if below is not None and _IS_SECRET_IN_HOME.match(below):
            return not _IS_READABLE_IN_HOME.match(below)
        name = path.name
        return bool(_IS_SECRET_NAME.match(name)) and not _IS_PUBLIC_NAME.match(name)

    def check_read(self, path: Path, shown: str) -> None:
        """Raise `ToolError` if `path` may not be read."""
        if self.hides(path):
            raise ToolError(
                f"{shown} holds credentials and is not shown; ask the user for the one value you need."
            )

    def check_write(self, path: Path, shown: str) -> None:
        """Raise `ToolError` if `path` may not be created, changed or deleted."""
        if self.hides(path):
            raise ToolError(f"{shown} holds credentials and is not changed; ask the user to edit it.")
        text = str(path)
        below = self._below_home(text)
        if _IS_GUARDED_IN_SYSTEM.match(text) or (below is not None and _IS_GUARDED_IN_HOME.match(below)):
            raise ToolError(f"{shown} guards the system and is not changed; ask the user to edit it.")

    def _is_protected(self, text: str) -> bool:
        while self._protected and text not in ("", "/"):
            if text in self._protected:
                return True
            text = text.rpartition("/")[0]
        return False

    def _below_home(self, text: str) -> str | None:
        """The part of a path below some user's home folder, or None."""
        for home in self._homes:
            if text.startswith(home):
                return text[len(home) :]
        foreign = _FOREIGN_HOME.match(text)
        return text[foreign.end() :] if foreign else None


def _homes() -> tuple[str, ...]:
    """The home folders of this user and of root, as written and as resolved."""
    homes = ["/root", os.environ.get("HOME", "")]
    try:
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        pass
    forms = {form for home in homes if home for form in _both_forms(home)}
    return tuple(sorted(forms - {"/"}))


def _linked_stores(homes: Iterable[str]) -> Iterator[str]:
    """Where the stores of the user really are, if a link stands in their usual place."""
    for home in homes:
        for store in _STORES:
            place = home
            for part in store.split("/"):
                place = f"{place}/{part}"
                if os.path.islink(place):  # noqa: PTH114 - a Path for each would take longer than the look
                    yield os.path.realpath(f"{home}/{store}")
                    break


def _both_forms(text: str) -> tuple[str, str]:
    """A path as written and as resolved: a link to a store must not open it."""
    return os.path.normpath(text), os.path.realpath(text)
