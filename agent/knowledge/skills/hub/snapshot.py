"""The list of what is installed, to be kept or carried to another machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from agent.knowledge.skills.hub.lock import LockedSkill
from agent.knowledge.skills.hub.problems import HubError
from agent.knowledge.skills.hub.source import SourceKind

VERSION = 1
LARGEST = 5_000_000
_TEXTS = ("name", "category", "source", "url", "item", "version", "digest")


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One skill: where it comes from, at which version, and the digest its files must have."""

    name: str
    category: str
    source: str
    kind: SourceKind
    url: str
    item: str
    version: str
    digest: str


def render_snapshot(rows: Iterable[LockedSkill]) -> str:
    """The list as JSON."""
    listed = [
        SnapshotRow(
            row.name,
            row.folder.partition("/")[0],
            row.source,
            row.kind,
            row.url,
            row.item,
            row.version,
            row.digest,
        )
        for row in rows
    ]
    data = {"version": VERSION, "skills": [asdict(row) for row in sorted(listed, key=lambda row: row.name)]}
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def parse_snapshot(content: bytes) -> tuple[SnapshotRow, ...]:
    """The rows of a list. Raises `HubError`."""
    try:
        data = json.loads(content)
        if data["version"] != VERSION:
            raise HubError("The list of skills is of another version than this Hermes reads.")
        return tuple(_row(each) for each in data["skills"])
    except (ValueError, TypeError, KeyError, RecursionError):
        raise HubError("The file is no list of skills that `hermes skills snapshot` wrote.") from None


def _row(record: Mapping[str, Any]) -> SnapshotRow:
    values = {key: record[key] for key in _TEXTS}
    if not all(isinstance(value, str) for value in values.values()):
        raise ValueError("a row that is damaged")
    if record["kind"] not in get_args(SourceKind):
        raise ValueError("a kind that is not known")
    return SnapshotRow(**values, kind=record["kind"])
