"""What was spent survives the saving of a damaged store."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from agent.core.store.salvage import recover_copy
from agent.core.store.store import Store
from agent.model.catalog import UNKNOWN
from agent.session.spending.report import report
from agent.session.spending.request_table import Payer, RequestAmount, add


@pytest.mark.parametrize("version", [2, 3])
async def test_requests_are_saved_or_counted_anew(tmp_path: Path, version: int) -> None:
    path = tmp_path / "state.db"
    async with await Store.open(path) as store:
        record = await store.create_session(workspace="/w", model="m")
        usage = {"input": 30, "output": 4, "cached": None}
        await store.append(record.id, "assistant", "x", {"model": "m", "usage": usage})
        payer = Payer(session=record.id, project="/w", agent="main", model="m")
        await store.database.write(lambda c: add(c, payer, RequestAmount(30, 4), "counted", time.time(), 0))
    if version == 2:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(
                "DROP TABLE requests; DROP TABLE requests_owed; PRAGMA user_version = 2;"
            )
    async with await Store.open(recover_copy(path)) as saved:
        found = await report(saved.database, lambda _: UNKNOWN, "day", days=None, now=time.time())
    assert (found.total.requests, found.total.input, found.total.output) == (1, 30, 4)
