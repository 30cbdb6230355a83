"""Learnings as a person changes them: each change holds for calls, and can be taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest

from agent.core.config.schema import LearningSettings
from agent.core.store.store import Store
from agent.knowledge.learnings.learning import LearningRefusedError, call_key, standing
from agent.knowledge.learnings.store import LearningBook, LearningChange, UnknownLearningError, learning_book
from tests.agent.knowledge.learnings.test_store import learning
from tools.services.learning_notes import LearningNote


@pytest.fixture
async def book(tmp_path: Path) -> AsyncIterator[LearningBook]:
    async with await Store.open(tmp_path / "state.db") as store:
        settings = LearningSettings.model_validate({})
        yield learning_book(store.database, tmp_path, settings, {"KEY": "hunter2hunter2"})


async def state(book: LearningBook) -> tuple[object, object]:
    """All that is kept, and what calls find of it."""
    calls = await book.store.for_calls([call_key("make  all", book.workspace), "old"])
    return await book.look(all_projects=True), calls


async def test_each_change_is_taken_back_whole(book: LearningBook) -> None:
    note = LearningNote(pattern="make all", fix="ninja", tags=("build",))
    seen = learning(project=book.store.project, key="seen", confirmed=3, refuted=1, times_used=4)
    seen = await book.store.keep(seen, ["old"])
    states, changes = [await state(book)], list[LearningChange]()

    async def changed(change: Awaitable[LearningChange]) -> None:
        changes.append(await change)
        states.append(await state(book))

    await changed(book.add(note))
    await changed(book.add(LearningNote(pattern="make all", fix="ninja", context="since May")))
    await changed(book.reword(seen.id, "`python3.12 app.py`"))
    await changed(book.confirm(seen.id))
    await changed(book.remove(seen.id))
    await changed(book.remove(2))
    assert states[-1] == ([], [])
    for change, before in zip(reversed(changes), reversed(states[:-1]), strict=True):
        await book.take_back(change)
        assert await state(book) == before


async def test_what_a_person_says_counts_from_then_on(book: LearningBook) -> None:
    added = (await book.add(LearningNote(pattern="make all", fix="ninja with hunter2hunter2"))).after
    assert added is not None and "hunter2" not in added.fix
    found = await book.store.for_calls([call_key("make all 2>&1", book.workspace)])
    assert [each.id for each in found] == [1]
    (book.root / "uv.lock").write_text("now")
    old = learning(project=book.store.project, status="retired", refuted=2, depends={"uv.lock": "then"})
    old = await book.store.keep(old)
    confirmed = (await book.confirm(old.id)).after
    assert confirmed is not None
    assert (confirmed.status, confirmed.refuted, standing(confirmed)) == ("learning", 0, "confirmed")
    assert confirmed.depends["uv.lock"] != "then"
    reworded = (await book.reword(old.id, "another way")).after
    assert reworded is not None and (reworded.fix_key, reworded.origin) == ("", "person")


async def test_what_is_not_there_or_says_nothing_is_refused(book: LearningBook) -> None:
    for change in (book.confirm(5), book.remove(5), book.reword(5, "x")):
        with pytest.raises(UnknownLearningError):
            await change
    with pytest.raises(LearningRefusedError, match="helps nobody"):
        await book.reword(5, "  ")
