"""Profile folders of browsers: a temporary one for each session, or a lasting one with a name.

A temporary profile is removed when the session ends. If the program was killed, a later start removes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent.core.consents import ConsentFile
from agent.core.home import private_folder
from agent.core.net.addresses import canonical, readings, refusal
from tools.kit.files import lock_file, open_lock
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import ToolError

_LOCK = "lock"
_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_LASTING = "profiles"


class BrowserProfile:
    """A folder that belongs to one browser until `close` is called."""

    def __init__(self, folder: Path, lock: int, *, lasts: bool) -> None:
        self.folder = folder
        self.lasts = lasts
        self._lock = lock

    def close(self) -> None:
        """Unlock the profile, and remove it unless it is a lasting one.

        Blocks. A second call does nothing.
        """
        if self._lock < 0:
            return
        lock, self._lock = self._lock, -1
        if not self.lasts:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(lock)


def open_profile(root: Path, name: str = "") -> BrowserProfile:
    """Return a new profile below `root`, or the lasting one called `name`. Blocks. Raises `ToolError`.

    Temporary profiles of programs that were killed are removed first.
    """
    private_folder(root)
    remove_abandoned(root)
    if name:
        if not _NAME.fullmatch(name):
            raise ToolError(f"browser.profile is {name[:40]!r}; use letters, digits, - and _.")
        folder = root / _LASTING / name
        private_folder(folder.parent)
        private_folder(folder)
    else:
        folder = Path(tempfile.mkdtemp(prefix="session-", dir=root))
    lock = _take_lock(folder)
    if lock is None:
        raise ToolError(f"The browser profile {name} is in use by another session; close that one first.")
    for part in ("profile", "tmp", "downloads", "uploads"):
        private_folder(folder / part)
    return BrowserProfile(folder, lock, lasts=bool(name))


class ProfileConsent(ConsentFile):
    """The names of lasting profiles that the user approved. Browsers cannot write to that file."""

    def approved_names(self) -> frozenset[str]:
        """Return the approved names."""
        names = self.data().get("profiles")
        return frozenset(each for each in (names if isinstance(names, list) else ()) if isinstance(each, str))

    def agree(self, name: str) -> None:
        """Store the approval of a name. Raises `ConfigError`."""
        with self.change() as data:
            data["profiles"] = sorted(self.approved_names() | {name})

    def withdraw(self, name: str) -> bool:
        """Withdraw the approval of a name; the profile itself stays.

        Returns False if the name was not approved. Raises `ConfigError`.
        """
        with self.change() as data:
            agreed = self.approved_names()
            data["profiles"] = sorted(agreed - {name})
        return name in agreed


def remove_abandoned(root: Path) -> None:
    """Remove temporary profiles whose program no longer runs. Blocks."""
    with suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if not entry.name.startswith("session-") or not entry.is_dir(follow_symlinks=False):
                continue
            lock = _take_lock(Path(entry.path))
            if lock is not None:
                shutil.rmtree(entry.path, ignore_errors=True)
                os.close(lock)


def _take_lock(folder: Path) -> int | None:
    """Lock a folder and return the descriptor; None if it cannot be locked, as by another program."""
    try:
        lock = open_lock(folder / _LOCK)
    except OSError:
        return None
    if not lock_file(lock, seconds=0):
        os.close(lock)
        return None
    return lock


_RULE = lazy_pattern(
    r"(https?|\{http,https\}|wss?)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::(\d{1,5}))?(?:/.*)?\Z"
)
_TOOLS = frozenset({"fetch", "browser_navigate"})
_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]
"""The scheme, canonical host and port of an address."""


def lifted_origins(rules: Iterable[Any]) -> frozenset[Origin]:
    """Return the origins with a numeric address or `localhost` that the user's own allow rules name.

    Wildcards and other host names are ignored, and so are addresses that serve credentials.
    """
    found: set[Origin] = set()
    for rule in rules:
        pattern = rule.subject.pattern
        if rule.verdict != "allow" or rule.origin != "permissions.yaml" or rule.subject.tool not in _TOOLS:
            continue
        matched = None if pattern is None else _RULE.match(pattern)
        if matched is None or matched[1] not in _PORTS:
            continue
        try:
            host = canonical(matched[2])
        except ValueError:
            continue
        if host != "localhost" and not _may_lift(host):
            continue
        found.add((matched[1], host, int(matched[3] or _PORTS[matched[1]])))
    return frozenset(found)


def _may_lift(host: str) -> bool:
    addresses = readings(host)
    return bool(addresses) and not any("credentials" in (refusal(each) or "") for each in addresses)


def origin_of(url: str) -> Origin | None:
    """Return the origin of a URL; None if it has none. `ws` and `wss` count as `http` and `https`."""
    try:
        parts = urlsplit(url)
        if parts.hostname is None or parts.scheme not in (*_PORTS, "ws", "wss"):
            return None
        scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
        host = canonical(parts.hostname)
        return scheme, host, parts.port or _PORTS[scheme]
    except ValueError:
        return None


class Lifting:
    """Decisions for the proxy on requests to lifted origins: those that the user's rules exempt. Thread-safe.

    Such a request must come from a lifted origin, or be the page that the model is about to open.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._origins: frozenset[Origin] = frozenset()
        self._expected: frozenset[Origin] = frozenset()

    def set(self, origins: frozenset[Origin]) -> None:
        """Replace the lifted origins."""
        with self._lock:
            self._origins = origins

    def is_lifted(self, url: str) -> bool:
        """Return whether a URL belongs to a lifted origin."""
        return origin_of(url) in self._origins

    def expect(self, url: str) -> None:
        """Record the URL that the model opens next; it replaces the one recorded before."""
        origin = origin_of(url)
        with self._lock:
            self._expected = frozenset() if origin is None else frozenset({origin})

    def allows(self, host: str, port: int, headers: Mapping[str, str], *, is_tunnel: bool) -> bool:
        """Return whether a request to `host` may pass although its address would otherwise be refused.

        `headers` are the request's headers by lower-case name. A tunnel to a lifted origin may always be
        opened; `allows_inside` then checks what is sent through it.
        """
        with self._lock:
            origins, expected = self._origins, self._expected
        if is_tunnel:
            return any((scheme, host, port) in origins for scheme in _PORTS)
        if ("http", host, port) not in origins:
            return False
        if _from_lifted(headers, origins):
            return True
        site = headers.get("sec-fetch-site", "")
        if site == "same-origin":
            return True
        is_foreign = any(headers.get(name) for name in ("origin", "referer"))
        return not is_foreign and site in ("", "none") and ("http", host, port) in expected

    def allows_inside(self, host: str, port: int, headers: Mapping[str, str] | None) -> bool:
        """Return whether the first request in a tunnel may pass; `headers` is None if it is encrypted."""
        with self._lock:
            origins, expected = self._origins, self._expected
        if headers is None:
            return ("https", host, port) in origins & expected
        return ("http", host, port) in origins and _from_lifted(headers, origins)


def _from_lifted(headers: Mapping[str, str], origins: frozenset[Origin]) -> bool:
    said = [headers[name] for name in ("origin", "referer") if headers.get(name)]
    return bool(said) and all(origin_of(each) in origins for each in said)
