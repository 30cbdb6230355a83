"""Origins of entries, kept beside the memory file so that the file stays plain text.

Entries are found again by the SHA-256 of their text, so edits by hand and moved
lines lose nothing that still holds. The file also knows the versions that Hermes
wrote: any other version was written by a person.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1
MOST_VERSIONS = 64
"""Versions that are remembered; an undo may bring any of them back."""
MOST_ENTRIES = 2_000
"""Entries whose origin is kept, also of removed ones: an undo brings them back with it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """When, where and on what evidence an entry was written."""

    created: float
    """Seconds since the epoch."""
    session: str = ""
    """Empty if a person wrote it by hand or on the command line."""
    node: int | None = None
    """The message of that session at which it was written."""
    by: str = "agent"
    """`agent`, `person`, or `file` if it was found in a file that a person edited."""


@dataclass(frozen=True, slots=True)
class Origins:
    """What is known beside one memory file."""

    versions: tuple[str, ...] = ()
    """SHA-256 of the contents that Hermes wrote, oldest first."""
    entries: Mapping[str, Origin] = field(default_factory=dict)
    """By SHA-256 of the entry's text."""

    def of(self, entry: str) -> Origin | None:
        """Where an entry came from; None if nobody knows."""
        return self.entries.get(digest(entry))

    def wrote(self, content: bytes) -> bool:
        """Whether Hermes wrote exactly this file."""
        return hashlib.sha256(content).hexdigest() in self.versions

    def with_version(self, content: bytes) -> Origins:
        """These origins, and a further version that Hermes writes."""
        new = hashlib.sha256(content).hexdigest()
        versions = [*(each for each in self.versions if each != new), new]
        return Origins(tuple(versions[-MOST_VERSIONS:]), self.entries)

    def with_entries(self, texts: tuple[str, ...], origin: Origin) -> Origins:
        """These origins, with `origin` for each of the texts that has none yet."""
        new = {key: origin for text in texts if (key := digest(text)) not in self.entries}
        entries = dict([*self.entries.items(), *new.items()][-MOST_ENTRIES:])
        return Origins(self.versions, entries)


def digest(entry: str) -> str:
    """SHA-256 of an entry's text."""
    return hashlib.sha256(entry.encode("utf-8", "surrogatepass")).hexdigest()


def dump(origins: Origins) -> bytes:
    """The file of these origins."""
    data = {
        "version": VERSION,
        "versions": list(origins.versions),
        "entries": {key: asdict(origin) for key, origin in origins.entries.items()},
    }
    return json.dumps(data, ensure_ascii=False, indent=1).encode()


def load(content: bytes) -> Origins | None:
    """The origins in a file; None if it holds no such thing. Single broken entries are left out."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        return None
    versions, entries = data.get("versions"), data.get("entries")
    if not isinstance(versions, list) or not isinstance(entries, dict):
        return None
    read = {key: origin for key, value in entries.items() if (origin := _origin(value)) is not None}
    return Origins(tuple(each for each in versions if isinstance(each, str))[-MOST_VERSIONS:], read)


def _origin(value: Any) -> Origin | None:
    if not isinstance(value, dict) or not isinstance(created := value.get("created"), int | float):
        return None
    session, node, by = value.get("session", ""), value.get("node"), value.get("by", "agent")
    if not isinstance(session, str) or not isinstance(by, str) or not isinstance(node, int | None):
        return None
    return Origin(float(created), session, node, by)
