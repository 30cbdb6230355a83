"""How the session screen looks in each of its states."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from agent.events import Noticed, ReplyCut, TextAdded
from agent.workspace.git import Checkout
from tests.support import story
from tests.support.staged import Staged, drawn, scene
from tests.support.thorough import thoroughly

NARROW, WIDE, BARE = (80, 24), (120, 40), (59, 24)


async def empty(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear([story.opened()])


async def at_work(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear([story.opened(), *story.asked(), *story.thinking()])
    await drawn(pilot)
    app.clock.now += 4.2
    app.hear(story.at_work()[4:])
    app.clock.now += 42.0
    await drawn(pilot)


async def at_work_with_queue(app: Staged, pilot: Pilot[Any]) -> None:
    await at_work(app, pilot)
    app.hear([story.waiting()])
    await pilot.press(*"and bump the version")


async def at_work_over_the_end(app: Staged, pilot: Pilot[Any]) -> None:
    """The person has scrolled up while more comes in."""
    app.hear(story.done())
    await drawn(pilot)
    app.session.transcript.navigator.scroll(-12)
    app.hear([*story.asked("And KWD?"), TextAdded(text="Looking.")])


async def done(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear(story.done())


async def outcomes(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear([story.opened(), *story.asked("Run the tests, then clean up."), *story.outcomes()])
    app.hear(
        [TextAdded(text="The tests fail beca"), ReplyCut(reason="the connection to the provider was lost")]
    )
    app.hear([Noticed(kind="compaction", text="Made room: 12 old tool results are no longer sent.")])
    app.hear([Noticed(kind="process", text="Process 3 (npm run watch) ended with code 1.")])
    app.hear([story.ended("interrupted")])


async def searched(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear(story.done())
    await drawn(pilot)
    await app.actions.find("round")


async def folded_open(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear(story.done())
    app.actions.unfold("")
    await drawn(pilot)
    app.session.transcript.focus()
    await pilot.press("g", "j")


async def jumping(app: Staged, pilot: Pilot[Any]) -> None:
    await at_work(app, pilot)
    await pilot.press("alt+j")


async def trouble(app: Staged, pilot: Pilot[Any]) -> None:
    """Everything that a status bar can complain about at once."""
    app.hear([story.opened(approvals="deny"), *story.asked(), story.used(197_000)])
    app.hear([story.ended("failed", "The provider cannot be reached: no route to api.example.org.", 3)])
    app.bridge.change(questions=2)


async def budget(app: Staged, pilot: Pilot[Any]) -> None:
    app.hear([story.opened(approvals="all"), *story.asked(), *story.looked(), story.used(165_000, cost=None)])
    app.hear([story.ended("budget")])


def pane(key: str) -> Any:
    async def over(app: Staged, pilot: Pilot[Any]) -> None:
        await at_work(app, pilot)
        await pilot.press(key)

    over.__name__ = f"pane-{key}"
    return over


MAIN = Checkout("main", False)
SCENES = [
    *[(size, act) for act in (empty, at_work, done, outcomes) for size in (NARROW, WIDE)],
    *[(NARROW, act) for act in (at_work_with_queue, at_work_over_the_end, searched, folded_open, jumping)],
    *[(WIDE, act) for act in (at_work_with_queue, searched, jumping, trouble)],
    *[(NARROW, act) for act in (trouble, budget, pane("alt+1"), pane("alt+2"), pane("alt+3"), pane("alt+4"))],
    *[(BARE, act) for act in (at_work_with_queue, done, pane("alt+3"), jumping)],
]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("size", "act"), SCENES, ids=[f"{act.__name__}-{width}x{height}" for (width, height), act in SCENES]
)
def test_a_session_looks_as_it_should(snap_compare: Any, size: tuple[int, int], act: Any) -> None:
    assert snap_compare(Staged(branch=MAIN), terminal_size=size, run_before=scene(act))


@pytest.mark.sample(1)
@pytest.mark.parametrize("skin", ["paper", "mono", *thoroughly("amber", "contrast-light")])
def test_a_session_looks_as_it_should_in_other_skins(snap_compare: Any, skin: str) -> None:
    detached = Checkout("3f9c2a1", True)
    app = Staged(skin, branch=detached)
    assert snap_compare(app, terminal_size=WIDE, run_before=scene(at_work_with_queue))
