"""How the forecast of agents and a ceiling that was reached look over a session."""

from __future__ import annotations

from typing import Any

import pytest
from textual.pilot import Pilot

from agent.events import Event
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import Dialog
from tests.app.tui import agents_stage
from tests.support import story
from tests.support.staged import Act, Staged, drawn, scene
from tests.support.waiting import until

NARROW, WIDE = (80, 24), (120, 40)
LONG = (
    "Read every file below src/payments and src/invoices, note each place where an amount is rounded, "
    "compare it with the table of currencies and say, with the line, which of them lose a cent"
)
PANEL = "Is banker's rounding what the tax office expects for yen?"
MODELS = ("anthropic/claude-sonnet-5", "openai/gpt-5.5", "openrouter/qwen3-coder")
HOSTILE = (
    "[bold]Look[/] \x1b]52;c;aGk=\x07 at \u202e.gnp",
    "a\nmodel  5 × free",
    "[@click=app.quit]here[/]",
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)


def asking(make: Any, *keys: str, **facts: Any) -> Act:
    """A request in the middle of a session, and keys pressed at its dialog."""

    async def act(app: Staged, pilot: Pilot[Any]) -> None:
        before: list[Event] = [story.opened(), *story.asked(), *story.looked(), story.used()]
        app.hear([*before, agents_stage.sent("agent-1", "callers", agents_stage.GOAL)])
        await drawn(pilot)
        app.hear([make(**facts)])
        await until(pilot, lambda: isinstance(app.screen, Dialog) and app.screen.armed, "its dialog")
        await pilot.press(*keys)
        await drawn(pilot)

    return act


DIALOGS: dict[str, Act] = {
    "forecast": asking(story.forecast),
    "forecast-many": asking(story.forecast, goals=[*story.GOALS, LONG] * 4, agent="agent-1"),
    "forecast-unknown": asking(
        story.forecast, goals=[LONG], models=[("custom/scripted", 1)], money=None, rooms=(), past=0
    ),
    "forecast-hostile": asking(
        story.forecast, goals=HOSTILE, models=[("[red]m[/]\x1b[2J\nleft  all of it", 3)]
    ),
    "forecast-mixture": asking(
        story.forecast,
        goals=[f"{who}: {PANEL}" for who in (*(f"round 1, {model}" for model in MODELS), "aggregator")],
        models=[(MODELS[0], 2), (MODELS[1], 1), (MODELS[2], 1)],
        single=True,
    ),
    "forecast-why": asking(story.forecast, "4", *"look yourself first"),
    "ceiling": asking(story.ceiling, agent="agent-1"),
    "ceiling-by": asking(story.ceiling, "2", *"500k"),
    "ceiling-too-little": asking(story.ceiling, "2", *"1k", "enter"),
    "ceiling-day": asking(
        story.ceiling,
        owner="this day",
        measure="money",
        ceiling=20.0,
        used=19.96,
        needed=0.31,
        again=40.0,
        setting="budget.day.money",
    ),
    "ceiling-turns": asking(
        story.ceiling,
        agent="agent-1",
        owner="agent-1",
        measure="turns",
        ceiling=40,
        used=39,
        needed=2,
        again=80,
        setting="subagents.turns",
    ),
}
BOTH = ("forecast", "forecast-mixture", "forecast-many", "forecast-unknown", "ceiling")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("size", "name"),
    [(NARROW, name) for name in DIALOGS] + [(WIDE, name) for name in BOTH],
    ids=[*DIALOGS, *(f"{name}-wide" for name in BOTH)],
)
def test_what_is_asked_about_budgets_looks_as_it_should(
    snap_compare: Any, size: tuple[int, int], name: str
) -> None:
    assert snap_compare(Staged(), terminal_size=size, run_before=scene(DIALOGS[name]))


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["forecast", "ceiling"])
def test_it_looks_as_it_should_on_paper_too(snap_compare: Any, name: str) -> None:
    assert snap_compare(Staged("paper"), terminal_size=NARROW, run_before=scene(DIALOGS[name]))


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["forecast", "ceiling"])
def test_the_way_out_is_in_sight_on_a_small_terminal(snap_compare: Any, name: str) -> None:
    assert snap_compare(Staged(), terminal_size=(50, 20), run_before=scene(DIALOGS[name]))
