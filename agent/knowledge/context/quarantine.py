"""Quarantine of passages in context files that read like orders to an agent, until the user approves them.

The rest of the file is used. A passage is a paragraph, a list item, a heading or a block of code. An approved
passage is identified by the hash of its text: the same text is allowed everywhere, a changed text is not.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError
from agent.knowledge.injection import InjectionFinding, scan
from tools.kit.files import write_atomically
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.redact import redact
from tools.text.safe_text import clean

LONGEST_SHOWN = 2_000
"""The maximum number of characters of a passage stored to show it to the user."""
MOST_NAMED = 3
"""The maximum number of passages that are reported one by one."""
SHORT = 12
"""The number of hash digits by which users name a passage."""

_ITEM = lazy_pattern(r"\s*(?:[-*+]|\d+[.)])\s|\s{0,3}#{1,6}\s")
_HARMLESS = frozenset({"invisible-characters"})
"""Rules whose findings need no quarantine, because such characters are removed from everything read."""
_CARE = lazy_pattern(
    r"(?:\b(?:never|not|n['’]t|avoid|nothing|nobody|forbidden|prohibited)\b|[❌✗✘🚫⛔])"
    r"(?:(?!hesitat|wait|worr|bother|afraid|stop|paus|ask|need)(?:[^.!?]|\.(?=\S|,))){0,200}?"
    r"\b(?:without|skip|bypass)",
    re.IGNORECASE,
)
"""Sentences that tell an agent not to act without approval: harmless, and found in many projects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPassage:
    """A passage of a file that is hidden from the model. Lines count from 1, both ends included."""

    digest: str
    """SHA-256 of the text, in hex; allowed passages are known by it."""
    file: str
    first: int
    last: int
    rules: tuple[str, ...]
    """The names of the matching rules of the scan."""
    text: str
    """The text without secrets, cut to `LONGEST_SHOWN` characters."""

    @property
    def place(self) -> str:
        """The file name and the line numbers, for the user."""
        lines = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{self.file}:{lines}"

    def data(self) -> dict[str, Any]:
        """Return the record for a node; `passages_of` reads it."""
        return {**asdict(self), "rules": list(self.rules)}


def passages_of(kept: Any) -> tuple[KeptPassage, ...]:
    """Return the passages stored in a node; unreadable ones are left out."""
    return tuple(passage for each in (kept if isinstance(kept, list) else ()) if (passage := _passage(each)))


def _passage(kept: Any) -> KeptPassage | None:
    if not isinstance(kept, Mapping):
        return None
    try:
        return KeptPassage(
            digest=str(kept["digest"]),
            file=str(kept["file"]),
            first=int(kept["first"]),
            last=int(kept["last"]),
            rules=tuple(map(str, kept["rules"])),
            text=str(kept["text"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def kept_back_notices(passages: Sequence[KeptPassage]) -> list[str]:
    """Return notices for the user: one for each of at most `MOST_NAMED` passages, and one about the rest."""
    told = [
        f"{clean(each.place)} reads like an order to an agent ({', '.join(each.rules)}) and is kept back; "
        f"/context shows it and lets it in."
        for each in passages[:MOST_NAMED]
    ]
    if (more := len(passages) - MOST_NAMED) > 0:
        told.append(f"{more:,} more passages of context files are kept back; see /context.")
    return told


def digest_of(text: str) -> str:
    """Return the hash that identifies a passage."""
    return sha256(text.strip().encode("utf-8", "replace")).hexdigest()


def quarantine_passages(
    text: str, file: str, allowed: Collection[str] = (), first: int = 1
) -> tuple[str, tuple[KeptPassage, ...]]:
    """Return the text with a notice in place of each passage to hide, and the hidden passages. Pure.

    `allowed` are the hashes of passages that the user approved. `first` is the number of the text's first
    line.
    """
    findings = [each for each in scan(text) if each.rule not in _HARMLESS]
    if not findings:
        return text, ()
    lines = text.split("\n")
    shown: list[str] = []
    found: list[KeptPassage] = []
    at = 0
    for start, end, rules in _touched(lines, findings):
        passage = "\n".join(lines[start:end])
        digest = digest_of(passage)
        if digest in allowed:
            continue
        kept = KeptPassage(
            digest=digest,
            file=file,
            first=first + start,
            last=first + end - 1,
            rules=rules,
            text=redact(passage.strip())[:LONGEST_SHOWN],
        )
        shown += [*lines[at:start], _mark(kept)]
        found.append(kept)
        at = end
    return "\n".join([*shown, *lines[at:]]), tuple(found)


def _mark(passage: KeptPassage) -> str:
    """Return the text that replaces a passage."""
    which = (
        f"Line {passage.first}" if passage.first == passage.last else f"Lines {passage.first}-{passage.last}"
    )
    return f"[{which} kept back: what stood there reads like an order to an agent. The user can let it in.]"


def _touched(
    lines: Sequence[str], findings: Sequence[InjectionFinding]
) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Yield start line, line after the end, and rules of each passage with findings.

    A finding that spans several passages makes them one.
    """
    passages = _passages(lines)
    merged: list[tuple[int, int, list[str]]] = []
    for finding in findings:
        touched = [each for each in passages if each[0] < finding.last and finding.first <= each[1]]
        if not touched:
            continue
        start, end = touched[0][0], touched[-1][1]
        if finding.rule == "skip-approval" and _CARE.search(" ".join(lines[start:end])):
            continue
        if merged and start < merged[-1][1]:
            before = merged.pop()
            merged.append((min(before[0], start), max(before[1], end), [*before[2], finding.rule]))
        else:
            merged.append((start, end, [finding.rule]))
    return ((start, end, tuple(dict.fromkeys(rules))) for start, end, rules in merged)


def _passages(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return, for each passage, the index of its first line and of the line after its last. Empty lines are
    left out.
    """
    found: list[tuple[int, int]] = []
    start: int | None = None
    fence = ""
    for at, line in enumerate(lines):
        mark = line.lstrip()[:3]
        opens = mark in ("```", "~~~") and fence in ("", mark)
        begins = not fence and (opens or not line.strip() or _ITEM.match(line) is not None)
        if start is not None and begins:
            found.append((start, at))
            start = None
        if opens:
            fence = "" if fence else mark
        if start is None and line.strip():
            start = at
    if start is not None:
        found.append((start, len(lines)))
    return found


_NAME = lazy_pattern(r"[0-9a-f]{64}")


def allowed_passages(home: Home) -> frozenset[str]:
    """Return the hashes of allowed passages; empty if they cannot be read."""
    try:
        with os.scandir(home.passages) as entries:
            return frozenset(each.name for each in entries if _NAME.fullmatch(each.name) and _is_ours(each))
    except OSError:
        return frozenset()


def allowed_places(home: Home) -> Mapping[str, str]:
    """Return file and lines of each approved passage when it was approved, by hash; empty if unknown."""
    places: dict[str, str] = {}
    for digest in sorted(allowed_passages(home)):
        places[digest] = ""
        with suppress(OSError):
            places[digest] = (home.passages / digest).read_text("utf-8", "replace").strip()
    return places


def approve_passage(home: Home, passage: KeptPassage) -> None:
    """Approve a passage in every file, from the next session on. Raises `ConfigError`."""
    folder = private_folder(home.passages)
    if _NAME.fullmatch(passage.digest) is None:
        raise ConfigError(f"{passage.digest!r} is not a hash of a passage.")
    try:
        write_atomically(folder / passage.digest, f"{passage.place}\n".encode(), PRIVATE_FILE)
    except OSError as error:
        raise ConfigError(f"Cannot write to {folder}: {error.strerror or error}.") from error


def withdraw_approval(home: Home, digest: str) -> bool:
    """Withdraw the approval of a passage; return False if it was not approved. Raises `ConfigError`."""
    if digest not in allowed_passages(home):
        return False
    try:
        Path(home.passages / digest).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"Cannot change {home.passages}: {error.strerror or error}.") from error
    return True


def _is_ours(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
