"""A workspace and a store."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.workspace.checkpoints.store import CheckpointStore
from tests.agent.workspace.checkpoints.restore.trees import Workspace


@pytest.fixture
def work(tmp_path: Path) -> Workspace:
    root = tmp_path / "work"
    root.mkdir()
    return Workspace(root.resolve(), CheckpointStore(tmp_path / "home" / "checkpoints"))
