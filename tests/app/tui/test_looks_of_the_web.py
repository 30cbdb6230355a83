"""How a turn on the web looks: a search, a page that was read, a picture in half blocks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.tui.web_stage import on_the_web
from tests.support.staged import Staged, scene


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("opened", "size", "skin"),
    [(1, (80, 24), "night"), (2, (120, 40), "night"), (0, (80, 24), "paper")],
    ids=["search-narrow", "page-wide", "closed-paper"],
)
def test_a_turn_on_the_web_looks_as_it_should(
    snap_compare: Any, monkeypatch: pytest.MonkeyPatch, opened: int, size: tuple[int, int], skin: str
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert snap_compare(Staged(skin), terminal_size=size, run_before=scene(on_the_web(opened)))
