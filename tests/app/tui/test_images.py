"""Images of a conversation, read from where they lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.core.attachments import AttachmentStore
from agent.core.home import Home
from app.tui.conversation.attachments import sources
from app.tui.conversation.clipboard_images import picture_loader
from tests.support.images import png
from tools.senses.pictures import CELL


async def test_images_of_messages_and_files_are_read_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    kept = AttachmentStore(Home.locate().attachments).keep(png(80, 40), "a.png")
    (tmp_path / "b.png").write_bytes(png(20, 20))
    (tmp_path / "words.png").write_text("no picture")
    os.mkfifo(tmp_path / "pipe.png")
    load = picture_loader(lambda: tmp_path)
    found = [await load(each, 60, 14, "blocks", CELL) for each in (*sources([kept]), "b.png")]
    assert [each and (each.columns, each.rows) for each in found] == [(8, 2), (2, 1)]
    for nothing in ("words.png", "pipe.png", "missing.png", "sha256:" + "0" * 64, "/dev/zero", "a\0b"):
        assert await load(nothing, 60, 14, "blocks", CELL) is None
