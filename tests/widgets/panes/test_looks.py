"""How it all looks, as pictures."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from tests.widgets.panes.host import NIGHTLY, PAPER, Host
from widgets.palette import Palette

WIDE, NARROW = (120, 40), (80, 24)


def keys(*pressed: str) -> Any:
    async def press(pilot: Pilot[None]) -> None:
        await pilot.pause(0.1)
        for key in pressed:
            await pilot.press(key)
            await pilot.pause(0.05)
        await pilot.app.workers.wait_for_complete()
        await pilot.pause(0.1)

    return press


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("size", "palette", "filled", "pressed"),
    [
        pytest.param(WIDE, NIGHTLY, True, (), id="wide"),
        pytest.param(WIDE, PAPER, True, ("alt+j", "l", "up", "slash", "r", "e"), id="wide-light-filter"),
        pytest.param(WIDE, NIGHTLY, False, (), id="wide-empty"),
        pytest.param(WIDE, NIGHTLY, True, ("alt+j",), id="wide-jump"),
        pytest.param(NARROW, NIGHTLY, True, (), id="narrow"),
        pytest.param(NARROW, PAPER, True, ("alt+j",), id="narrow-light-jump"),
        pytest.param(NARROW, NIGHTLY, True, ("alt+j", "l", "up"), id="narrow-overlay"),
        pytest.param(NARROW, PAPER, False, (), id="narrow-light-empty"),
        pytest.param(WIDE, NIGHTLY, True, ("alt+j", "f", "full_stop"), id="wide-ignored-files"),
        pytest.param(NARROW, PAPER, True, ("alt+j", "f", "full_stop"), id="narrow-ignored-files"),
    ],
)
def test_the_workbench(
    snap_compare: Any, size: tuple[int, int], palette: Palette, filled: bool, pressed: tuple[str, ...]
) -> None:
    assert snap_compare(Host(palette, filled=filled), terminal_size=size, run_before=keys(*pressed))
