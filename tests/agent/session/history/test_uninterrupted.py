"""What was asked for is carried to its end, whatever becomes of the one who asked."""

from __future__ import annotations

import asyncio

import pytest

from agent.session.history.navigation import RunningOperations, uninterrupted


class Mill:
    """Grinds when it is let."""

    def __init__(self) -> None:
        self.under_way = RunningOperations()
        self.let = asyncio.Event()
        self.ground: list[str] = []

    @uninterrupted
    async def grind(self, what: str, *, fine: bool = False) -> str:
        """Grind something."""
        await self.let.wait()
        if what == "stone":
            raise ValueError(what)
        self.ground.append(what)
        return f"{what}{', fine' if fine else ''}"


async def test_who_waits_gets_what_comes_of_it() -> None:
    mill = Mill()
    mill.let.set()
    assert await mill.grind("rye", fine=True) == "rye, fine"
    with pytest.raises(ValueError, match="stone"):
        await mill.grind("stone")


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_it_goes_on_when_nobody_waits_any_more_and_can_be_waited_for(turns: int) -> None:
    mill = Mill()
    asked = asyncio.create_task(mill.grind("rye"))
    await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert mill.ground == []
    mill.let.set()
    await mill.under_way.wait()
    assert mill.ground == ["rye"]


async def test_nothing_to_wait_for_is_no_wait() -> None:
    await RunningOperations().wait()
