"""What was spent survives the saving of a damaged store."""

from __future__ import annotations

import time
from pathlib import Path

from agent.core.store.salvage import recover_copy
from agent.core.store.store import Store
from agent.model.catalog import UNKNOWN
from agent.session.spending.report import report
from agent.session.spending.request_table import Payer, RequestAmount, add


async def test_requests_are_saved(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with await Store.open(path) as store:
        record = await store.create_session(workspace="/w", model="m")
        usage = {"input": 30, "output": 4, "cached": None}
        await store.append(record.id, "assistant", "x", {"model": "m", "usage": usage})
        payer = Payer(session=record.id, project="/w", agent="main", model="m")
        await store.database.write(lambda c: add(c, payer, RequestAmount(30, 4), "counted", time.time(), 0))
    async with await Store.open(recover_copy(path)) as saved:
        found = await report(saved.database, lambda _: UNKNOWN, "day", days=None, now=time.time())
    assert (found.total.requests, found.total.input, found.total.output) == (1, 30, 4)
