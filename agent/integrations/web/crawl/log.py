"""The log of a crawl on the disk: a line for each page, so that one that was cut off goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawledPage:
    """One address that was dealt with."""

    url: str
    depth: int
    file: str = ""
    """Its text, below the folder of the crawl; empty where there is none."""
    title: str = ""
    characters: int = 0
    size: int = 0
    """Bytes that came in."""
    digest: str = ""
    """Of its text, by which copies are told."""
    why: str = ""
    """Why there is no text."""
    links: Sequence[str] = field(default=(), repr=False)
    """Where it leads to, as far as that may be followed."""


class CrawlLog:
    """The file `crawl.jsonl` of a folder. Blocks."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "crawl.jsonl"

    def read(self) -> tuple[list[CrawledPage], bool]:
        """The pages so far, and whether the crawl is complete. A line that was cut off does not count."""
        pages: list[CrawledPage] = []
        is_complete = False
        for data in self._lines():
            if data.get("complete"):
                is_complete = True
            else:
                try:
                    pages.append(CrawledPage(**data))
                except TypeError:
                    continue
        return pages, is_complete

    def add(self, page: CrawledPage) -> None:
        """Write a page down. Raises `OSError`."""
        self._write(asdict(page))

    def end(self) -> None:
        """Write down that nothing is left."""
        self._write({"complete": True})

    def begin_anew(self) -> None:
        """Forget what was."""
        self._path.unlink(missing_ok=True)

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            text = self._path.read_text("utf-8", "replace")
        except FileNotFoundError:
            return
        for line in text.splitlines():
            try:
                data = json.loads(line)
            except ValueError:
                continue
            if isinstance(data, dict):
                yield data

    def _write(self, data: dict[str, object]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        opened = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # What was cut off before ends here, so that it spoils no line after it.
            if os.fstat(opened).st_size and not self._ends():
                line = b"\n" + line
            os.write(opened, line)
        finally:
            os.close(opened)

    def _ends(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
