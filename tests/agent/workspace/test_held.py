"""Copies that outlive their process: written down whole, taken up again by one, never swept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.errors import StoreError
from agent.workspace.isolated_copies.copy_folders import HELD, Holder, holders, sweep
from agent.workspace.isolated_copies.workspace_copy import make_copy, reopen
from tests.agent.workspace.isolated_copies.test_workspace_copy import recording, torture

HOLDER = Holder("session", "agent-1")


async def test_a_copy_that_is_taken_up_again_knows_exactly_what_changed(tmp_path: Path) -> None:
    torture(tmp_path / "work")
    copies = tmp_path / "home" / "copies"
    async with recording(tmp_path) as recorder:
        copy = await make_copy(recorder, copies)
        await copy.hold(HOLDER)
        copy.leave()
        assert sweep(copies) == 0
        assert holders(copies) == {copy.id: HOLDER}
        again = await reopen(recorder, copies, copy.id)
        assert (again.root, again.position, again.coverage) == (copy.root, copy.position, copy.coverage)
        assert await again.changes() == ()
        odd = os.fsdecode(b"odd \xff\n name")
        (again.root / odd).write_bytes(b"y")
        (again.root / "one").unlink()
        assert [change.path for change in await again.changes()] == sorted([odd, "one"])
        plan = await again.plan_merge()
        assert {item.state for item in plan.items} == {"change"}
        with pytest.raises(StoreError, match="Another process works with the copy"):
            await reopen(recorder, copies, copy.id)
        await again.close()
        with pytest.raises(StoreError, match="no longer there"):
            await reopen(recorder, copies, copy.id)
    assert list(copies.iterdir()) == []


async def test_what_was_changed_and_stepped_over_while_nobody_looked_is_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("first")
    copies = tmp_path / "home" / "copies"
    async with recording(tmp_path) as recorder:
        copy = await make_copy(recorder, copies)
        await copy.hold(HOLDER)
        copy.leave()
    (tmp_path / "work" / "a").write_text("somebody else's")
    async with recording(tmp_path) as recorder:
        (tmp_path / "work" / "a").write_text("and again, noticed this time")
        await recorder.catch_up()
        again = await reopen(recorder, copies, copy.id)
        (again.root / "a").write_text("the agent's")
        (item,) = (await again.plan_merge()).items
        assert item.state == "conflict"
        restored = await again.merge(await again.plan_merge(), session="s", label="merge")
        assert restored.step is None
        assert (tmp_path / "work" / "a").read_text() == "and again, noticed this time"
        await again.close()


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"\xff\xfe", b'["end"]\n'])
async def test_a_damaged_note_is_told_in_one_sentence_and_nothing_is_removed(
    tmp_path: Path, damage: bytes
) -> None:
    (tmp_path / "work").mkdir()
    copies = tmp_path / "home" / "copies"
    async with recording(tmp_path) as recorder:
        copy = await make_copy(recorder, copies)
        await copy.hold(HOLDER)
        (copy.root / "made").write_text("work")
        copy.leave()
        note = copies / copy.id / HELD
        note.write_bytes(damage or note.read_bytes()[:-20])
        with pytest.raises(StoreError, match=r"damaged; its files are still there\.$"):
            await reopen(recorder, copies, copy.id)
        assert sweep(copies) == 0
        assert (copy.root / "made").read_text() == "work"


async def test_one_that_is_forsaken_is_swept(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    copies = tmp_path / "home" / "copies"
    async with recording(tmp_path) as recorder:
        copy = await make_copy(recorder, copies)
        await copy.hold(HOLDER)
        assert sweep(copies, {copy.id}) == 0, "its process lives"
        copy.leave()
        assert sweep(copies, {copy.id}) == 1
    assert list(copies.iterdir()) == []
