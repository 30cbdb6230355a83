"""Files as the editor of a session has them: what is not saved yet, and what was written handed over to it.

The disk stays what counts. Unsaved text of the person is saved before a tool changes the file, once the gate
has allowed that, so that no bytes of theirs are lost and undo takes back the tool's change only. What a tool
wrote is handed to the editor as well, which has it in its buffers then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tools.editor import EditorSide
from tools.files.atomic import write_atomically
from tools.files.binary import SAMPLE_BYTES, binary_kind
from tools.files.descriptors import read_bytes
from tools.files.planning import Write
from tools.files.text_files import TextFile, decode, to_newlines

LARGEST = 2_000_000
"""Bytes of a file that an editor is asked about."""
CHANGED = "The editor changed {name} as it saved it; read it before you change it again."


async def unsaved(editor: EditorSide, path: Path) -> str | None:
    """The editor's text of a file that differs from the disk; None where it does not, or nobody knows."""
    if not editor.reads:
        return None
    try:
        file = await asyncio.to_thread(_plain_text, path)
    except OSError:
        return None
    if file is None:
        return None
    text = await editor.text(path)
    if text is None or to_newlines(text).removeprefix("\ufeff") == file.text:
        return None
    return text


async def settle(editor: EditorSide, path: Path) -> None:
    """Have unsaved text of a file saved, which is about to be changed."""
    if editor.writes and (text := await unsaved(editor, path)) is not None:
        await editor.save(path, text)


async def readable_copy(editor: EditorSide, path: Path, scratch: Path) -> Path:
    """Where to read a file: itself, or a private copy of the editor's text of it. Raises `OSError`."""
    text = await unsaved(editor, path)
    if text is None:
        return path

    def write() -> Path:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = scratch / f"unsaved-{path.name}"
        write_atomically(copy, text.encode("utf-8", "replace"), 0o600)
        return copy

    return await asyncio.to_thread(write)


async def hand_over(editor: EditorSide, writes: Sequence[Write]) -> list[Path]:
    """Tell the editor what was written. Returns the files that it changed as it saved them."""
    changed: list[Path] = []
    if not editor.writes:
        return changed
    for each in writes:
        text = _as_text(each.data)
        if text is not None and await editor.save(each.path, text):
            try:
                now = (await asyncio.to_thread(read_bytes, each.path))[0]
            except OSError:
                continue
            if now != each.data:
                changed.append(each.path)
    return changed


def _plain_text(path: Path) -> TextFile | None:
    """The file as text; None for one that is large or none."""
    if path.stat().st_size > LARGEST:
        return None
    data, _ = read_bytes(path)
    return None if binary_kind(path.name, data[:SAMPLE_BYTES]) is not None else decode(data)


def _as_text(data: bytes) -> str | None:
    """What an editor can be given; None for what is large, marked, or in another encoding."""
    if len(data) > LARGEST or data.startswith(b"\xef\xbb\xbf"):
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
