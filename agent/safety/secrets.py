"""Names of files that hold keys, passwords and private history, for the gate."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from agent.safety.reader.tree import GLOBS, UNKNOWN, pattern
from tools.kit.lazy_pattern import lazy_pattern
from tools.secret_places import (
    LIKELY_NAMES,
    NAMES,
    PUBLIC_NAMES,
    STORES,
    STORES_ANYWHERE,
    SYSTEM,
    any_of,
    rows,
)

_ANYWHERE = any_of(rows(STORES_ANYWHERE))
_FOLDERS = lazy_pattern(
    rf"/(?:{_ANYWHERE}|proc/[^/]+/(?:environ|mem)|proc/kcore|dev/k?mem)(?:/|$)"
    rf"|^(?:{any_of(rows(SYSTEM))})(?:/|$)",
    re.IGNORECASE,
)
_IN_HOME = lazy_pattern(rf"(?:{any_of(rows(STORES))})(?:/|$)", re.IGNORECASE)
_OF_SOMEBODY = lazy_pattern(r"/(?:home|Users)/[^/]+/|/root/")
_NAMES = lazy_pattern(any_of(rows(NAMES + LIKELY_NAMES)), re.IGNORECASE)
_PUBLIC = lazy_pattern(any_of(rows(PUBLIC_NAMES)), re.IGNORECASE)
# What a pattern such as `.e*` or `~/.s*/id_*` may stand for.
_SAMPLES = (
    ".env",
    ".netrc",
    ".npmrc",
    ".bash_history",
    "id_rsa",
    "id_ed25519",
    "credentials",
    "server.pem",
    "server.key",
)
_SAMPLE_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube")
_has_start = re.compile(r"/\.|/Library/|/snap/|/etc/|/run/|/var/|/proc/|/dev/", re.IGNORECASE).search
"""A test for the path parts of all folders with secrets."""


def is_secret(path: str) -> bool:
    """Return whether a marked absolute path likely names a secret file, or is a pattern that matches one."""
    name = path.rpartition("/")[2]
    if path.isascii() or not any(mark in path for mark in GLOBS):
        known = _by_name(name)
        if known is not None:
            return known
        return _has_start(path) is not None and (_FOLDERS.search(path) is not None or _in_a_home(path))
    return _may_be_secret(path)


def _in_a_home(path: str) -> bool:
    """Return whether a path is a store of secrets below any user's home."""
    own = os.environ.get("HOME", "").rstrip("/")
    if own and path.startswith(f"{own}/"):
        return _IN_HOME.match(path, len(own) + 1) is not None
    home = _OF_SOMEBODY.match(path)
    return home is not None and _IN_HOME.match(path, home.end()) is not None


@lru_cache(maxsize=2_048)
def _by_name(name: str) -> bool | None:
    """Return whether a file is secret by its name; None if that depends on its folder."""
    if _PUBLIC.fullmatch(name):
        return False
    return True if _NAMES.fullmatch(name.replace(UNKNOWN, "")) else None


@lru_cache(maxsize=512)
def _may_be_secret(path: str) -> bool:
    names = path.split("/")
    last = names[-1]
    if last.endswith(".env"):
        return True  # what searches for names takes hidden ones as well
    if len(names) > 3 and _may_be(names[1], "proc") and (_may_be(last, "environ") or _may_be(last, "mem")):
        return True  # of some process
    if any(mark in last for mark in GLOBS) and not _is_wide(last):
        expression = pattern(last)
        if any(expression.fullmatch(sample) for sample in _SAMPLES):
            return True
    elif not _is_wide(last) and _NAMES.fullmatch(last) and not _PUBLIC.fullmatch(last):
        return True
    for place, name in enumerate(names[:-1]):
        if any(mark in name for mark in GLOBS) and not _is_wide(name):
            expression = pattern(name)
            if any(expression.fullmatch(folder) for folder in _SAMPLE_FOLDERS):
                return True
        elif _FOLDERS.search("/" + "/".join(names[max(0, place - 3) : place + 1]) + "/"):
            return True
    return False


def _may_be(name: str, known: str) -> bool:
    """Return whether a name, which may be a pattern, can match a known name."""
    return name == known or (
        any(map(name.__contains__, GLOBS)) and pattern(name).fullmatch(known) is not None
    )


def _is_wide(name: str) -> bool:
    """Return whether a pattern such as `*` matches nearly any name, except hidden files."""
    return any(mark in name for mark in GLOBS) and pattern(name).fullmatch("main") is not None
