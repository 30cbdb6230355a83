"""The two lines over the conversation of an agent."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from widgets.panes.agents import AgentHeader, AgentRow, AgentState


class Host(App[None]):
    """A header over nothing, of a row that may change."""

    def __init__(self, row: AgentRow) -> None:
        super().__init__()
        self.row = row
        self.header = AgentHeader(lambda: self.row, clock=lambda: 100.0)

    def compose(self) -> ComposeResult:
        yield self.header

    def told(self) -> list[str]:
        """The lines as they stand."""
        return [self.header.render_line(y).text.rstrip() for y in range(2)]


def row(state: AgentState, unmerged: int, goal: str = "Find every caller") -> AgentRow:
    return AgentRow(agent="agent-1", name="callers", state=state, goal=goal, seconds=61, unmerged=unmerged)


@pytest.mark.parametrize("state", ["done", "failed", "budget", "interrupted"])
async def test_what_nobody_merged_stands_at_the_right_end_once_the_agent_is_over(state: AgentState) -> None:
    host = Host(row(state, 1_204))
    async with host.run_test(size=(60, 4)):
        assert host.told()[1].startswith("   Find every caller ")
        assert host.told()[1].endswith("±1,204 not merged") and len(host.told()[1]) == 59
        host.row = row(state, 0)
        assert host.told()[1] == "   Find every caller"


async def test_a_long_goal_gives_way_to_what_is_not_merged() -> None:
    host = Host(row("done", 3, goal="Find every caller of money.round() and say what each of them expects"))
    async with host.run_test(size=(60, 4)):
        assert "… ±3 not merged" in host.told()[1]


@pytest.mark.parametrize("state", ["running", "waiting", "paused"])
async def test_while_it_works_nothing_is_to_be_merged_yet(state: AgentState) -> None:
    host = Host(row(state, 3))
    async with host.run_test(size=(60, 4)):
        assert "±" not in "".join(host.told())
