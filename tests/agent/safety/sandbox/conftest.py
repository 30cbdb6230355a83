"""Cells to break out of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.agent.safety.sandbox.cell import Cell, room
from tests.agent.safety.sandbox.kinds import KINDS


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def make_cell(monkeypatch: pytest.MonkeyPatch, kind: str) -> Iterator[Callable[..., Cell]]:
    with ExitStack() as rooms:
        yield lambda **more: Cell(KINDS[kind], rooms.enter_context(room()), monkeypatch, **more)


@pytest.fixture
def cell(make_cell: Callable[..., Cell]) -> Cell:
    return make_cell()
