"""Files with unsaved text in the session's editor, and notifying the editor of written files.

The disk is authoritative. Editor text that was on the disk before was not typed: it is outdated and ignored.
The user's unsaved text is saved before a tool changes the file, once that is permitted, so that
nothing is lost and undo only reverts the tool's change. If the disk has changed as well, nothing is written,
and both versions are reported. What a tool wrote is also sent to the editor.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from tools.files.diffs import diff_texts, shorten_diff
from tools.files.planning import Write
from tools.files.text_files import SAMPLE_BYTES, binary_kind, decode, to_newlines
from tools.kit.files import read_bytes, write_atomically
from tools.results import ToolError
from tools.services.editor import EditorSide, KnownTexts

LARGEST = 2_000_000
"""The size limit in bytes of a file requested from an editor."""
MOST_BASES = 200
"""The number of files whose last text is remembered, if it has at most `LARGEST_BASE` characters."""
LARGEST_BASE = 200_000
CHANGED = "The editor changed {name} as it saved it; read it before you change it again."
NEWER = (
    "{name} was typed in or written to meanwhile, so the editor was not given the new text; read it again."
)
BEHIND = (
    "{name} was changed or deleted on the disk, and the editor has unsaved text of it from before that. "
    "{done}, so that neither is lost: have the person save or reload it in the editor, then read it again."
)


@dataclass(frozen=True, slots=True)
class UnsavedText:
    """The editor's typed text of a file that is not on the disk."""

    text: str
    disk: str
    """The text on disk; empty if the file is gone."""
    behind: bool
    """Whether the disk has a change that the editor's text lacks."""

    def differences(self) -> str:
        """Return a diff from the disk to the editor."""
        return shorten_diff(diff_texts(self.disk, _plain(self.text), "disk", "editor").text)

    def refusal(self, name: str) -> ToolError:
        """Return the error for a file with two versions that cannot both be kept."""
        return ToolError(BEHIND.format(name=name, done="Nothing was written"), diff=self.differences())


async def unsaved_text(editor: EditorSide, path: Path) -> UnsavedText | None:
    """Return the editor's unsaved text of a file; None if all is saved or the texts cannot be compared."""
    if not editor.reads or await asyncio.to_thread(_disk_text, path) is None:
        return None
    if (text := await editor.text(path)) is None:
        return None
    known = editor.known_texts
    base = known.base.get(path)
    earlier = await known.former(path) if base is None else ()
    return await asyncio.to_thread(_comparison, known, path, text, base, earlier)


def _comparison(
    known: KnownTexts, path: Path, text: str, base: str | None, earlier: Sequence[bytes]
) -> UnsavedText | None:
    # What counts is the disk after the editor answered.
    disk = _disk_text(path)
    if disk is None:
        return None
    typed = _plain(text)
    now, here = _digest(disk), _digest(typed)
    bases = [decode(each).text for each in earlier] if base is None else [base]
    with known.lock:
        # The editor's last text is on the disk now, because the editor saved it.
        if known.typed.get(path) == now:
            bases = [disk]
        stood = known.stood.setdefault(path, set())
        stood.update(map(_digest, bases), [now])
        if here in stood:
            if here == now:
                _remember_base(known, path, disk)
            return None
        known.typed[path] = here
        behind = not all(each == disk or _contains_change(typed, disk, each) for each in bases)
        if not behind:
            _remember_base(known, path, disk)
    return UnsavedText(text, disk, behind)


async def save_unsaved(editor: EditorSide, path: Path) -> None:
    """Save the unsaved text of a file that is about to change. Raises `ToolError` if the disk changed too."""
    found = await unsaved_text(editor, path)
    if found is not None and found.behind:
        raise found.refusal(path.name)
    if found is not None and editor.writes and await editor.save(path, found.text):
        await asyncio.to_thread(_note_saved, editor.known_texts, path, found.text)


async def readable_copy(editor: EditorSide, path: Path, scratch: Path) -> tuple[Path, str]:
    """Return the path at which to read a file, and a note.

    The path is the file's, or that of a private copy of the editor's text. Raises `OSError`.
    """
    found = await unsaved_text(editor, path)
    if found is None:
        return path, ""
    if found.behind:
        note = BEHIND.format(name=path.name, done="What is shown is the disk")
        return path, f"{note}\n{found.differences()}"
    text = found.text

    def write() -> Path:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = scratch / f"unsaved-{path.name}"
        write_atomically(copy, text.encode("utf-8", "replace"), 0o600)
        return copy

    return await asyncio.to_thread(write), ""


async def send_to_editor(
    editor: EditorSide, writes: Sequence[Write], name: Callable[[Path], str]
) -> list[str]:
    """Send written text to the editor; return notes about that. `name` gives the shown name of a path."""
    notes: list[str] = []
    for each in writes if editor.writes else ():
        text = _as_text(each.data)
        if text is None:
            continue
        # What was typed or written since then is newer than what is handed over.
        found = await unsaved_text(editor, each.path)
        if found is not None or await asyncio.to_thread(_bytes, each.path) != each.data:
            notes.append(NEWER.format(name=name(each.path)))
        elif await editor.save(each.path, text):
            await asyncio.to_thread(_note_saved, editor.known_texts, each.path, text)
            if await asyncio.to_thread(_bytes, each.path) not in (each.data, None):
                notes.append(CHANGED.format(name=name(each.path)))
    return notes


def _note_saved(known: KnownTexts, path: Path, text: str) -> None:
    """Record that editor and disk have the same text."""
    text = _plain(text)
    with known.lock:
        known.stood.setdefault(path, set()).add(_digest(text))
        _remember_base(known, path, text)


def _remember_base(known: KnownTexts, path: Path, text: str) -> None:
    """Record the disk version on which the editor's text is based."""
    known.base.pop(path, None)
    if len(text) <= LARGEST_BASE:
        known.base[path] = text
    if len(known.base) > MOST_BASES:
        del known.base[next(iter(known.base))]


def _contains_change(text: str, newer: str, older: str) -> bool:
    """Return whether `text` contains the change from `older` to `newer`, which shows that its author had seen
    `newer`.
    """
    for pieces in (_lines, _neighbours):
        now, before, here = pieces(newer), pieces(older), pieces(text)
        added, removed = now - before, before - now
        if added or removed:
            return all(here[it] >= now[it] for it in added) and all(here[it] <= now[it] for it in removed)
    return True


def _lines(text: str) -> Counter[object]:
    return Counter(text.split("\n"))


def _neighbours(text: str) -> Counter[object]:
    return Counter(pairwise(text.split("\n")))


def _plain(text: str) -> str:
    """Return an editor's text with line feeds and without a byte-order mark, like decoded files."""
    return to_newlines(text).removeprefix("\ufeff")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _bytes(path: Path) -> bytes | None:
    try:
        return read_bytes(path)[0]
    except OSError:
        return None


def _disk_text(path: Path) -> str | None:
    """Return the file as text, empty if missing; None if it is large or not text."""
    try:
        if path.stat().st_size > LARGEST:
            return None
        data, _ = read_bytes(path)
    except FileNotFoundError:
        return ""
    except OSError:
        return None
    return None if binary_kind(path.name, data[:SAMPLE_BYTES]) is not None else decode(data).text


def _as_text(data: bytes) -> str | None:
    """Return text an editor can take; None if it is large, has a byte order mark, or another encoding."""
    if len(data) > LARGEST or data.startswith(b"\xef\xbb\xbf"):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
