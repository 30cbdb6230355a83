"""How the prompt looks in each of its states."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.widgets.prompt.host import Host
from tests.widgets.prompt.scenes import SCENES


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_the_prompt_looks_as_it_should(
    snap_compare: Callable, scene: Callable, size: tuple[int, int]
) -> None:
    assert snap_compare(Host(), terminal_size=size, run_before=scene)
