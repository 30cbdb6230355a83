"""Cells to break out of."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agent.safety.sandbox.cell import Cell
from tests.agent.safety.sandbox.kinds import KINDS


def _room() -> Path:
    """A folder for test worlds that is not below `/tmp`, which sandboxes replace."""
    for folder in (Path.home(), Path("/var/lib")):
        if folder.is_dir():
            try:
                return Path(tempfile.mkdtemp(prefix=".hermes-cell-", dir=folder)).resolve()
            except OSError:
                continue
    raise RuntimeError("no folder outside /tmp can be written")


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def make_cell(monkeypatch: pytest.MonkeyPatch, kind: str) -> Iterator[Callable[..., Cell]]:
    rooms: list[Path] = []

    def make(**more) -> Cell:
        rooms.append(_room())
        return Cell(KINDS[kind], rooms[-1], monkeypatch, **more)

    yield make
    for room in rooms:
        shutil.rmtree(room, ignore_errors=True)


@pytest.fixture
def cell(make_cell: Callable[..., Cell]) -> Cell:
    return make_cell()
