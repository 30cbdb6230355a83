"""Reports as agents write them, room for agents in order, files for one writer at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.session.spending.budget import Budget
from agent.session.subagents.live_agent import FileTurn, FileTurns, Slots
from agent.session.subagents.records import AgentReport, Task, overall, read_answer
from tests.support.team import report
from tools.services.actions import ReadPath, WritePath


def test_a_report_is_read_in_its_parts() -> None:
    text = report("It is done.\nAll of it.", findings=["a", "b"], files=["x.py"], open_points=["c"])
    answer = read_answer(text)
    assert (answer.summary, answer.failed) == ("It is done.\nAll of it.", False)
    assert (answer.findings, answer.files, answer.open_points) == (("a", "b"), ("x.py",), ("c",))


def test_a_headline_has_no_marks_of_markdown() -> None:
    said = AgentReport(id="a", outcome="completed", summary="## What I did\n**All** of it, in `2 ** 8`.")
    assert said.headline == "What I did\nAll of it, in `2 ** 8`."
    assert replace(said, summary="", error="It was stopped.").headline == "It was stopped."


@pytest.mark.parametrize(
    "text",
    [
        "**Outcome:** failed\nNo.",
        "Outcome: Failed",
        "# Outcome: partial\nHalf.",
        "- outcome: **failed**",
        "Here it is.\n\nOutcome: failed, as the key is missing.",
    ],
)
def test_what_says_that_it_failed_is_failed(text: str) -> None:
    assert read_answer(text).failed


def test_decorated_headings_and_numbered_items_are_understood_and_nothing_is_no_item() -> None:
    text = (
        "Outcome: completed\nDone.\n\n### Findings\n1. one\n2) two\n**Files:**\n* a.py\n## Open points\nNone"
    )
    answer = read_answer(text)
    assert (answer.findings, answer.files, answer.open_points) == (("one", "two"), ("a.py",), ())


def test_a_report_not_written_as_asked_is_all_summary() -> None:
    assert read_answer("I did it.\nThe files: a, b.").summary == "I did it.\nThe files: a, b."


@pytest.mark.thorough
@given(st.text(max_size=300))
@settings(max_examples=60, deadline=None)
def test_any_text_can_be_read(text: str) -> None:
    answer = read_answer(text)
    assert len(answer.summary) <= len(text)


def test_several_outcomes_are_completed_only_if_each_is() -> None:
    assert overall(["completed", "completed"]) == "completed"
    assert overall(["completed", "killed"]) == "partial"
    assert overall(["failed", "budget"]) == "failed"
    assert overall([]) == "completed"


def test_a_task_is_kept_as_json_and_unknown_fields_do_no_harm() -> None:
    task = Task(goal="g", toolsets=("file",), budget=Budget(tokens=5), isolation="readonly", name="n")
    assert Task.from_json({**task.to_json(), "later": 1}) == task


async def test_room_is_given_in_order_and_cancelled_waiting_leaves_no_gap() -> None:
    slots, order = Slots(1), list[int]()
    await slots.take()

    async def work(number: int) -> None:
        await slots.take()
        order.append(number)
        slots.give_back()

    tasks = [asyncio.create_task(work(number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    slots.give_back()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 2, 3, 4]
    assert slots.taken == 0


async def test_lent_room_comes_back_before_newcomers() -> None:
    slots, order = Slots(1), list[str]()
    back = asyncio.Event()

    async def lender() -> None:
        await slots.take()
        async with slots.lent():
            await back.wait()
        order.append("lender")
        slots.give_back()

    async def other(name: str) -> None:
        await slots.take()
        back.set()
        await asyncio.sleep(0)
        order.append(name)
        slots.give_back()

    await asyncio.gather(lender(), other("first"), other("second"))
    assert order == ["first", "lender", "second"]
    assert slots.taken == 0


async def turns(count: int) -> None:
    """Let the others continue so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_room_is_never_lost_whatever_is_cancelled() -> None:
    chance = Random(3)
    slots, most = Slots(3), 0

    async def work() -> None:
        nonlocal most
        await slots.take()
        try:
            most = max(most, slots.taken)
            await turns(chance.randrange(12))
            if chance.random() < 0.5:
                async with slots.lent():
                    await turns(chance.randrange(12))
        finally:
            slots.give_back()

    tasks = [asyncio.create_task(work()) for _ in range(60)]
    for task in tasks:
        await turns(chance.randrange(3))
        if chance.random() < 0.4:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert slots.taken == 0
    assert most >= 3
    await asyncio.wait_for(asyncio.gather(slots.take(), slots.take(), slots.take()), 60)


def write(path: str) -> WritePath:
    return WritePath(tool="write_file", path=Path(path))


async def test_two_agents_change_one_file_after_each_other_and_the_second_is_told() -> None:
    writers, told, order = FileTurns(), list[str](), list[str]()

    async def change(agent: str) -> None:
        writer = FileTurn(agent, writers, told.append)
        async with writer.during("call_1"):
            await writer.acting("call_1", write("/w/a"))
            order.append(f"{agent} begins")
            await asyncio.sleep(0.01)
            order.append(f"{agent} ends")

    await asyncio.gather(change("one"), change("two"))
    assert order == ["one begins", "one ends", "two begins", "two ends"]
    (note,) = told
    assert note.startswith("[/w/a was changed by one before you")


async def test_agents_that_change_several_files_never_wait_for_each_other_forever() -> None:
    writers = FileTurns()

    async def change(agent: str, paths: list[str]) -> None:
        writer = FileTurn(agent, writers, lambda _: None)
        for number in range(20):
            async with writer.during(f"{number}"):
                for path in paths:
                    await writer.acting(f"{number}", write(path))
                    await asyncio.sleep(0)

    await asyncio.wait_for(asyncio.gather(change("one", ["/a", "/b"]), change("two", ["/b", "/a"])), 60)
    assert not any(lock.locked() for lock in writers.locks.values())


async def test_reading_waits_for_nobody_and_a_stopped_writer_holds_nothing() -> None:
    writers = FileTurns()
    one, two = FileTurn("one", writers, lambda _: None), FileTurn("two", writers, lambda _: None)
    with suppress(RuntimeError):
        async with one.during("1"):
            await one.acting("1", write("/a"))
            await two.acting("2", ReadPath(tool="read_file", path=Path("/a")))
            raise RuntimeError
    async with two.during("2"):
        await asyncio.wait_for(two.acting("2", write("/a")), 60)
