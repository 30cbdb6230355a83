"""Screens on a terminal with sixteen colours: the page stays the terminal's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.tui.screens.dialog import DetailScreen
from tests.app.tui.test_application import stage


async def test_a_text_on_its_own_screen_leaves_the_page_to_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLORTERM", raising=False)
    async with stage(tmp_path, []) as scene:
        screen = DetailScreen("In full", "one\n@@ -1 +1 @@\n-two\n+three\nfour")
        scene.app.push_screen(screen)
        await scene.until(lambda: screen.is_mounted and screen.reader.size.height, "the screen")
        runs = [run for y in range(6) for run in screen.reader.render_line(y)]
        assert any("one" in run.text for run in runs)
        grounds = [run.style.bgcolor for run in runs if run.style is not None]
        assert all(ground is None or ground.is_default for ground in grounds)
