"""A result belongs to the branch whose message asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.store.connection import HeadMoved
from agent.core.store.store import Store


async def test_a_result_does_not_get_into_a_branch_that_went_on_elsewhere(tmp_path: Path) -> None:
    async with await Store.open(tmp_path / "state.db") as store:
        session = await store.create_session(workspace=str(tmp_path), model="m")
        asked = {"calls": [{"id": "c", "name": "todo_read", "arguments": "{}"}]}
        asker = await store.append(session.id, "assistant", "", asked)
        await store.start_call(session.id, asker.id, "c", "todo_read")
        await store.append(session.id, "assistant", "another process went on", {})
        with pytest.raises(HeadMoved):
            await store.finish_call(session.id, "c", "{}", {"outcome": "done"}, expected=asker.id)
        branch = await store.fork(session.id, asker.id, "main-2")
        node = await store.finish_call(
            session.id, "c", "{}", {"outcome": "done"}, head=branch.name, expected=asker.id
        )
        assert node.parent == asker.id
