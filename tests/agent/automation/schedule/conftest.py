"""A store with its jobs and a clock that is set by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.automation.schedule.book import JobBook
from agent.core.store.store import Store
from tests.agent.automation.schedule.sample import Clock


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "state.db") as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(store: Store, tmp_path: Path, clock: Clock) -> JobBook:
    return JobBook(store.database, tmp_path / "schedule", clock)
