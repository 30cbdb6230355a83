"""Learnings as rows: duplicates become one, what happens is counted, projects are kept apart."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agent.core.store.store import Store
from agent.knowledge.learnings import store as table
from agent.knowledge.learnings.learning import Learning, after_use, merge_learnings, same
from agent.knowledge.learnings.store import LearningStore


def learning(**given: Any) -> Learning:
    usual: dict[str, Any] = {
        "key": "k",
        "project": "here",
        "status": "candidate",
        "origin": "observed",
        "tool": "terminal",
        "program": "python",
        "error": "python: command not found",
        "pattern": "python app.py",
        "error_type": "command not found",
        "fix": "`python3 app.py`",
        "fix_kind": "instead",
        "fix_key": "f",
        "created_at": 1.0,
        "updated_at": 1.0,
    }
    return Learning(**(usual | given))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "state.db") as opened:
        yield opened


def here(store: Store, project: str = "here", **options: Any) -> LearningStore:
    return LearningStore(store.database, project, **options)


async def test_everything_of_a_learning_comes_back(store: Store) -> None:
    full = learning(
        status="learning",
        origin="agent",
        subcommand="run",
        context="on this machine",
        tags=("a", "b"),
        times_used=3,
        confirmed=2,
        refuted=1,
        session="s",
        node=7,
        evidence={"failed": "x"},
        depends={"uv.lock": "1"},
    )
    kept = await here(store).keep(full, ["call"])
    assert await here(store).get(kept.id) == replace(full, id=kept.id)


async def test_seen_again_a_candidate_is_confirmed_and_becomes_a_learning(store: Store) -> None:
    first = await here(store).keep(learning(), ["call"])
    again = await here(store).keep(learning(updated_at=2.0), ["call"])
    assert (first.status, again.id, again.status, again.confirmed) == ("candidate", first.id, "learning", 1)


@pytest.mark.parametrize(("after", "status"), [(0, "candidate"), (2, "learning"), (3, "candidate")])
async def test_how_often_it_takes_is_a_setting(store: Store, after: int, status: str) -> None:
    await here(store, promote_after=after).keep(learning())
    assert (await here(store, promote_after=after).keep(learning())).status == status


async def test_what_works_may_differ_each_time_for_one_call_that_fails(store: Store) -> None:
    first = await here(store).keep(learning(fix="`serve 8001`", fix_key="a"), ["call"])
    again = await here(store).keep(learning(fix="`serve 8002`", fix_key="b", updated_at=2.0), ["call"])
    other = await here(store).keep(learning(fix="`other`", fix_key="c"), ["another call"])
    assert (again.id, again.fix, again.status) == (first.id, "`serve 8002`", "learning")
    assert other.id != first.id


async def test_a_call_finds_what_is_known_of_it_here_and_everywhere_only(store: Store) -> None:
    mine = await here(store).keep(learning(), ["call"])
    general = await here(store).keep(learning(project="", key="g"), ["call"])
    await here(store, "there").keep(learning(project="there"), ["call"])
    assert {each.id for each in await here(store).for_calls(["call", "x"])} == {mine.id, general.id}
    assert await here(store).for_calls(["x"]) == []
    assert [each.id for each in await here(store, "third").for_calls(["call"])] == [general.id]
    assert await here(store, "there").get(mine.id) is None


async def test_two_refutations_retire_it_and_the_person_can_bring_it_back(store: Store) -> None:
    kept = await here(store).keep(learning(status="learning"), ["call"])
    once = await here(store).add_outcome(kept.id, refuted=1)
    twice = await here(store).add_outcome(kept.id, refuted=1)
    assert once is not None and twice is not None
    assert (once.status, twice.status) == ("learning", "retired")
    assert await here(store).for_calls(["call"]) == []
    back = await here(store).set_status(kept.id, "learning")
    assert back is not None and (back.status, back.refuted) == ("learning", 0)


async def test_what_was_stale_holds_again_once_it_has_worked(store: Store) -> None:
    kept = await here(store).keep(learning(status="stale"))
    now = await here(store).add_outcome(kept.id, confirmed=1)
    assert now is not None and now.status == "learning"


async def test_the_oldest_candidates_are_forgotten_first(store: Store) -> None:
    lessons = here(store, most_candidates=10)
    await lessons.keep(learning(key="kept", status="learning", updated_at=0.0))
    for number in range(15):
        await lessons.keep(learning(key=f"k{number}", updated_at=float(number)), [f"call {number}"])
    left = await lessons.list_learnings()
    assert [each.key for each in left if each.status == "learning"] == ["kept"]
    assert {each.key for each in left if each.status == "candidate"} == {f"k{n}" for n in range(5, 15)}
    assert await lessons.for_calls(["call 0"]) == []


async def test_a_search_finds_by_any_word_and_puts_the_best_first(store: Store) -> None:
    await here(store).keep(learning(key="a", pattern="npm run build", fix="use pnpm", tags=("web",)))
    await here(store).keep(learning(key="b", pattern="npm test", fix="use vitest"))
    found = await here(store).search("npm PNPM")
    assert [each.key for each in found] == ["a", "b"]
    assert await here(store).search("nothing") == []
    assert len(await here(store).search("")) == 2


async def test_what_is_removed_is_gone_with_its_calls(store: Store) -> None:
    kept = await here(store).keep(learning(), ["call"])
    assert await here(store).remove(kept.id) and not await here(store).remove(kept.id)
    assert await here(store).for_calls(["call"]) == []
    assert await here(store).add_outcome(kept.id, used=1) is None


async def test_half_characters_are_kept_as_what_can_be(store: Store) -> None:
    kept = await here(store).keep(learning(fix="a\ud800b", tags=("\udfff",)))
    assert await here(store).get(kept.id) == kept


async def test_the_look_up_before_a_call_uses_the_index(store: Store) -> None:
    plans: list[str] = []

    def explain(connection: table.Connection) -> None:
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        table.for_calls(connection, ["a", "b"], "here")
        connection.set_trace_callback(None)
        (query,) = [each for each in statements if each.startswith("SELECT")]
        plans.extend(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}"))

    await store.database.read(explain)
    assert any("SEARCH learning_calls USING PRIMARY KEY" in plan for plan in plans)
    assert not any(plan.startswith("SCAN") for plan in plans)


_CHILD = """
import asyncio, sys
from pathlib import Path
from agent.knowledge.learnings.store import LearningStore
from agent.core.store.store import Store
from tests.agent.knowledge.learnings.test_store import learning

async def main():
    async with await Store.open(Path(sys.argv[1])) as store:
        lessons = LearningStore(store.database, "here", promote_after=0)
        for number in range(40):
            await lessons.keep(learning(key=f"k{number % 4}"), [f"call {number}"])

asyncio.run(main())
"""


@pytest.mark.thorough
async def test_two_processes_at_once_lose_nothing_and_make_no_doubles(store: Store) -> None:
    command = [sys.executable, "-c", _CHILD, str(store.file)]
    children = [subprocess.Popen(command, cwd=Path(__file__).parents[4]) for _ in range(2)]
    codes = [await asyncio.to_thread(child.wait, 60) for child in children]
    assert codes == [0, 0]
    rows = await here(store).list_learnings()
    assert sorted(each.key for each in rows) == ["k0", "k1", "k2", "k3"]
    assert sum(each.confirmed for each in rows) == 80 - 4
    assert len(await here(store).for_calls([f"call {number}" for number in range(40)])) == 4


_LEARNINGS = some.builds(
    learning,
    origin=some.sampled_from(["observed", "agent", "person"]),
    status=some.sampled_from(["candidate", "learning", "retired", "stale"]),
    fix=some.sampled_from(["use x", "Use  X", "y"]),
    fix_key=some.sampled_from(["", "f", "g"]),
    context=some.sampled_from(["", "c"]),
    tags=some.lists(some.sampled_from("abc"), max_size=3).map(tuple),
    times_used=some.integers(0, 5),
    confirmed=some.integers(0, 5),
    refuted=some.integers(0, 5),
    created_at=some.floats(0, 10),
    updated_at=some.floats(0, 10),
)


@given(_LEARNINGS, _LEARNINGS)
def test_merging_loses_no_count_and_no_tag(one: Learning, other: Learning) -> None:
    both = merge_learnings(one, other)
    for name in ("times_used", "confirmed", "refuted"):
        assert getattr(both, name) == getattr(one, name) + getattr(other, name)
    assert set(both.tags) == {*one.tags, *other.tags}
    assert both.created_at == min(one.created_at, other.created_at)
    assert both.fix in (one.fix, other.fix)
    assert bool(both.fix_key) == bool(one.fix_key or other.fix_key)


@given(_LEARNINGS, _LEARNINGS)
def test_what_a_person_wrote_is_not_overwritten_by_what_was_seen(one: Learning, other: Learning) -> None:
    person, seen = replace(one, origin="person"), replace(other, origin="observed")
    assert merge_learnings(person, seen).fix == merge_learnings(seen, person).fix == person.fix


@given(_LEARNINGS, _LEARNINGS)
def test_to_say_the_same_is_mutual(one: Learning, other: Learning) -> None:
    assert same(one, one) and same(one, other) == same(other, one)


@given(_LEARNINGS, some.integers(0, 3), some.integers(0, 3))
def test_what_was_refuted_twice_is_no_longer_told(one: Learning, confirmed: int, refuted: int) -> None:
    after = after_use(one, confirmed=confirmed, refuted=refuted, promote_after=2)
    if refuted and after.refuted >= 2:
        assert after.status == "retired"
    if not refuted and one.status == "learning":
        assert after.status == "learning"
