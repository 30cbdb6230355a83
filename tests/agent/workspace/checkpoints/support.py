"""A store and steps to put into it, for the tests and benchmarks of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step
from agent.workspace.checkpoints.store import CheckpointStore


def file(data: bytes, mode: int = 0o644) -> PathEntry:
    """How a file with these bytes stands."""
    return PathEntry(PathKind.FILE, mode, len(data), 1, sha256(data).hexdigest())


def kept(store: CheckpointStore, data: bytes) -> PathEntry:
    """The same, with the bytes in the store."""
    store.objects.add(data)
    return file(data)


def add(
    store: CheckpointStore,
    *changes: PathChange,
    session: str = "s",
    created: float | None = None,
    label: str = "write_file a",
) -> Step:
    """Append a step to the line of `session`."""
    return store.line(session).append(
        kind="tool",
        session=session,
        call="c",
        label=label,
        root="/project",
        changes=changes,
        created=created,
    )


def write(store: CheckpointStore, path: str, data: bytes, session: str = "s", created: float = 0.0) -> Step:
    """Keep `data` as the new contents of `path`, in a step of its own."""
    steps: Iterable[Step] = reversed(store.line(session).steps())
    before = next((c.after for step in steps for c in step.changes if c.path == path), None)
    return add(store, PathChange(path, before, kept(store, data)), session=session, created=created)
