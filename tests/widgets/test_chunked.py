"""Work in slices: all of it is done, and others get the loop in between."""

import asyncio

from widgets.transcript.picture import run_in_slices


async def test_every_step_is_done_and_others_run_in_between():
    ran: list[str] = []
    other = asyncio.create_task(asyncio.sleep(0))
    other.add_done_callback(lambda _: ran.append("other"))
    async for _ in run_in_slices((ran.append(str(step)) for step in range(5)), seconds=0, rest=0.001):
        pass
    assert [step for step in ran if step != "other"] == list("01234")
    assert "other" in ran[1:-1]


async def test_nothing_to_do_is_one_slice():
    assert len([slice async for slice in run_in_slices(())]) == 1


async def test_who_stops_listening_stops_the_work():
    done: list[int] = []
    async for _ in run_in_slices((done.append(step) for step in range(100)), seconds=0, rest=0):
        if len(done) == 3:
            break
    assert done == [0, 1, 2]
