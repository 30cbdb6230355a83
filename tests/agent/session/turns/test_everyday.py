"""Everyday version control in the default sandbox, nobody there to ask: all is as outside, unasked."""

from __future__ import annotations

import pytest

from tests.agent.session.turns.everyday import WORKS, compare, lacks, room
from tests.support.thorough import thoroughly

USUAL = ("svn", "fossil")


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [*USUAL, *thoroughly(*(each for each in WORKS if each not in USUAL))])
async def test_version_control_is_as_outside(name: str) -> None:
    if missing := lacks(WORKS[name]):
        pytest.skip(f"not on this machine: {', '.join(missing)}")
    with room() as root:
        found = await compare(WORKS[name], root)
    assert not found.asked and not found.differs, "\n".join((*found.asked, *found.differs))
