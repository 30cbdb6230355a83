"""Profiles of browsers: one a session, removed at its end, also when we were killed; or a lasting one."""

from __future__ import annotations

import os
import re
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
from tools.results import ToolError

_LOCK = "lock"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_LASTING = "profiles"


class BrowserProfile:
    """A folder that one browser has for itself while `close` was not called."""

    def __init__(self, folder: Path, lock: int, *, lasts: bool) -> None:
        self.folder = folder
        self.lasts = lasts
        self._lock = lock

    def close(self) -> None:
        """Let go of it, and remove it unless it lasts. Blocks. A second time does nothing."""
        if self._lock < 0:
            return
        lock, self._lock = self._lock, -1
        if not self.lasts:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(lock)


def open_profile(root: Path, name: str = "") -> BrowserProfile:
    """A new profile below `root`, or the lasting one of that name. Blocks. Raises `ToolError`.

    What was left by programs that were killed is removed.
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
    """The names of lasting profiles that the person agreed to; no browser can write to that file."""

    def agreed_names(self) -> frozenset[str]:
        """The names."""
        names = self.data().get("profiles")
        return frozenset(each for each in (names if isinstance(names, list) else ()) if isinstance(each, str))

    def agree(self, name: str) -> None:
        """Note a yes. Raises `ConfigError`."""
        with self.change() as data:
            data["profiles"] = sorted(self.agreed_names() | {name})

    def withdraw(self, name: str) -> bool:
        """Take a yes back; the profile stays. False if there was none. Raises `ConfigError`."""
        with self.change() as data:
            agreed = self.agreed_names()
            data["profiles"] = sorted(agreed - {name})
        return name in agreed


def remove_abandoned(root: Path) -> None:
    """Remove profiles of sessions whose program has gone. Blocks."""
    with suppress(OSError), os.scandir(root) as entries:
        for entry in entries:
            if not entry.name.startswith("session-") or not entry.is_dir(follow_symlinks=False):
                continue
            lock = _take_lock(Path(entry.path))
            if lock is not None:
                shutil.rmtree(entry.path, ignore_errors=True)
                os.close(lock)


def _take_lock(folder: Path) -> int | None:
    """The lock of a folder; None if another program has it."""
    try:
        lock = open_lock(folder / _LOCK)
    except OSError:
        return None
    if not lock_file(lock, seconds=0):
        os.close(lock)
        return None
    return lock


_RULE = re.compile(
    r"(https?|\{http,https\}|wss?)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::(\d{1,5}))?(?:/.*)?\Z"
)
_TOOLS = frozenset({"fetch", "browser_navigate"})
_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]
"""Scheme, canonical host, port."""


def lifted_origins(rules: Iterable[Any]) -> frozenset[Origin]:
    """What allow rules of the person's own file name by address; wildcards and names count for nothing."""
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
    """The origin of an address; None where it has none."""
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
    """Decides for the proxy whether a request to a lifted origin comes from where it may. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._origins: frozenset[Origin] = frozenset()
        self._expected: frozenset[Origin] = frozenset()

    def set(self, origins: frozenset[Origin]) -> None:
        """The origins that are lifted from now on."""
        with self._lock:
            self._origins = origins

    def is_lifted(self, url: str) -> bool:
        """Whether an address is of a lifted origin."""
        return origin_of(url) in self._origins

    def expect(self, url: str) -> None:
        """The model opens this address next; what it opened before is no longer expected."""
        origin = origin_of(url)
        with self._lock:
            self._expected = frozenset() if origin is None else frozenset({origin})

    def allows(self, host: str, port: int, headers: Mapping[str, str], *, is_tunnel: bool) -> bool:
        """Whether a request to `host` may pass although its address is refused otherwise.

        `headers` are those of the request by lower-case name. What a tunnel carries is looked at by
        `allows_inside`, unless it is encrypted for an origin that the model opens itself.
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
        """The same for the first request in a tunnel; `headers` is None where it is encrypted."""
        with self._lock:
            origins, expected = self._origins, self._expected
        if headers is None:
            return ("https", host, port) in origins & expected
        return ("http", host, port) in origins and _from_lifted(headers, origins)


def _from_lifted(headers: Mapping[str, str], origins: frozenset[Origin]) -> bool:
    said = [headers[name] for name in ("origin", "referer") if headers.get(name)]
    return bool(said) and all(origin_of(each) in origins for each in said)
