"""The on-disk cache of fetched pages in one home folder; a page is revalidated with its server before it is
used.

A file holds one response: a line of JSON (address, headers, request headers that it depends on), then the
body. All operations block and are meant for a worker thread.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.kit.files import write_atomically

log = logging.getLogger(__name__)

_HEADERS = frozenset(
    [
        "content-type",
        "content-language",
        "content-disposition",
        "etag",
        "last-modified",
        "link",
        "x-robots-tag",
    ]
)
"""The response headers that are stored."""
_FULL = 0.9
"""The share of the limit that stays in use after the oldest pages are deleted."""


@dataclass(frozen=True, slots=True)
class KeptPage:
    """The stored response to an earlier request."""

    url: str
    headers: Mapping[str, str]
    body: bytes

    def conditions(self) -> dict[str, str]:
        """Return the headers that make a request conditional, so that the server can confirm this page."""
        pairs = (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified"))
        return {name: self.headers[kept] for name, kept in pairs if kept in self.headers}


class PageCache:
    """Stored responses, by address. One is used only if the request headers it depends on are the same.
    `limit` is the size on disk in bytes.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._size = -1
        """The bytes in use; negative until they are counted."""
        self._lock = threading.Lock()

    def find(self, url: str, sent: Mapping[str, str]) -> KeptPage | None:
        """Return the stored page for a request with the headers `sent`; None if missing or unreadable."""
        path = self._path(url)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            data = json.loads(head)
            if data["url"] != url or any(sent.get(name) != value for name, value in data["vary"].items()):
                return None
            with suppress(OSError):
                os.utime(path)
            return KeptPage(url, dict(data["headers"]), body)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("a kept page cannot be read and is left out: %s", error)
            return None

    def keep(self, url: str, sent: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> bool:
        """Store a response that can be revalidated; return whether it was stored. The names in `headers` are
        in lower case. Large, private and `no-store` responses are not stored.
        """
        if not ({"etag", "last-modified"} & headers.keys()) or len(body) > self._limit // 4:
            return False
        wishes = f"{headers.get('cache-control', '')},{headers.get('pragma', '')}".lower()
        varies = [name.strip().lower() for name in headers.get("vary", "").split(",") if name.strip()]
        if "no-store" in wishes or "private" in wishes or {"*", "cookie"} & set(varies):
            return False
        lower = {name.lower(): value for name, value in sent.items()}
        head = {
            "url": url,
            "vary": {name: lower.get(name) for name in varies},
            "headers": {name: value for name, value in headers.items() if name in _HEADERS},
        }
        data = json.dumps(head).encode() + b"\n" + body
        path = self._path(url)
        with self._lock:
            try:
                for folder in (self._folder.parent, self._folder, path.parent):
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                before = path.stat().st_size if path.exists() else 0
                write_atomically(path, data, mode=0o600)
                self._make_room(len(data) - before)
            except OSError as error:
                log.warning("a page cannot be kept: %s", error)
                return False
        return True

    def _make_room(self, added: int) -> None:
        if self._size >= 0:
            self._size += added
            if self._size <= self._limit:
                return
        found = []
        for path in self._folder.glob("*/*"):
            with suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
        self._size = sum(size for _, size, _ in found)
        if self._size <= self._limit:
            return
        for _, size, path in sorted(found):
            if self._size <= self._limit * _FULL:
                return
            with suppress(OSError):
                path.unlink()
                self._size -= size

    def _path(self, url: str) -> Path:
        name = hashlib.sha256(url.encode()).hexdigest()
        return self._folder / name[:2] / name[2:]
