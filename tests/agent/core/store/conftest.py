"""Stores in temporary folders."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent.core.store.nodes import Session
from agent.core.store.store import Store

MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: each commit is synced, and disks differ a hundredfold."""
    path = Path(tempfile.mkdtemp(prefix="store-", dir=MEMORY if MEMORY.is_dir() else None))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "home" / "state.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    async with await Store.open(path) as opened:
        yield opened


@pytest.fixture
async def session(store: Store) -> Session:
    return await store.create_session(workspace="/project", model="some/model")
