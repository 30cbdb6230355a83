"""What agents are in the middle of, and who follows them."""

from __future__ import annotations

from agent.core.store.nodes import Node
from agent.events import (
    AgentEnded,
    AgentStarted,
    AssistantMessageAdded,
    Event,
    SessionOpened,
    TextAdded,
    TodosChanged,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    UserMessageAdded,
)
from app.tui.conversation.agent_screen import announced_nodes
from app.tui.conversation.bridge import PROGRESS_KEPT, AgentStreams, TodoTree, UnstoredEvents
from tools.context import Todo
from tools.results import Display

SHOW = Display("run", "x")
STARTED = ToolStarted(agent="a", call="c", tool="terminal", arguments={}, display=SHOW)
FINISHED = ToolFinished(
    agent="a", node=5, call="c", tool="terminal", outcome="done", seconds=1, result="{}", display=SHOW
)


def flying(*events: Event) -> UnstoredEvents:
    made = AgentStreams()
    for event in events:
        made.handle(event)
    return made.unstored_events("a")


def test_what_is_half_written_and_what_runs_is_in_flight() -> None:
    text, out = TextAdded(agent="a", text="half"), ToolProgressed(agent="a", call="c", text="out")
    assert flying(text).events() == [text]
    message = AssistantMessageAdded(agent="a", node=4, text="half an answer")
    assert flying(text, message).events() == [] and flying(text, message).node == 4
    assert flying(message, STARTED, out).events() == [STARTED, out]
    assert flying(message, STARTED, out, FINISHED).events() == []
    assert flying(FINISHED, UserMessageAdded(agent="a", node=6, text="on")).node == 6


def test_calls_of_scripts_are_not_in_the_conversation() -> None:
    inner = ToolStarted(agent="a", call="i", parent="c", tool="t", arguments={}, display=SHOW)
    assert flying(inner, ToolProgressed(agent="a", call="i", text="x")).events() == []


def test_of_long_output_the_end_is_kept() -> None:
    told = [ToolProgressed(agent="a", call="c", text=str(at)) for at in range(200)]
    assert flying(STARTED, *told).events() == [STARTED, *told[-PROGRESS_KEPT:]]


def test_an_agent_that_ends_is_in_the_middle_of_nothing() -> None:
    end = AgentEnded(agent="a", outcome="interrupted", summary="", seconds=1)
    made = flying(UserMessageAdded(agent="a", node=3, text="x"), STARTED, TextAdded(agent="a", text="h"), end)
    assert made.events() == [] and made.node == 3


def test_who_follows_hears_one_agent_until_they_stop_and_of_a_new_session() -> None:
    made, heard = AgentStreams(), list[Event]()
    stop = made.follow("a", heard.append)
    opened = SessionOpened(session="s", title="", model="m", workspace="/")
    for event in (STARTED, TextAdded(agent="b", text="x"), TextAdded(text="main"), opened):
        made.handle(event)
    assert heard == [STARTED, opened] and made.unstored_events("a").events() == []
    stop()
    stop()
    made.handle(STARTED)
    assert len(heard) == 2


def test_what_was_stored_a_moment_ago_is_still_to_be_heard_of() -> None:
    path = [
        Node(at, "s", None, kind, 0.0, "", {}) for at, kind in ((1, "user"), (2, "assistant"), (3, "tool"))
    ]
    assert announced_nodes(path, UnstoredEvents(2), True) == path[:2]
    assert (
        announced_nodes(path, UnstoredEvents(2), False)
        == announced_nodes(path, UnstoredEvents(0), True)
        == path
    )
    assert announced_nodes([], UnstoredEvents(2), True) == []


def sent(agent: str, parent: str = "main") -> AgentStarted:
    return AgentStarted(agent=agent, name=agent, goal="", parent=parent)


def tasks(agent: str, *ids: str) -> TodosChanged:
    items = tuple(Todo(id, id, "in_progress" if at == 0 else "pending") for at, id in enumerate(ids))
    return TodosChanged(agent=agent, items=items)


def tree(*events: Event) -> TodoTree:
    made = TodoTree()
    for event in events:
        made.handle(event)
    return made


def test_the_list_of_an_agent_hangs_below_the_task_that_was_in_progress_when_it_was_sent() -> None:
    made = tree(
        tasks("main", "x", "y"), sent("a"), tasks("main", "y"), sent("b"), tasks("b", "1"), tasks("a", "1")
    )
    assert [(each.agent, each.sender, each.task) for each in made.below()] == [
        ("a", "main", "x"), ("b", "main", "y"),
    ]  # fmt: skip
    assert [item.id for item in made.items()] == ["y"]


def test_a_list_below_an_agent_without_one_stands_in_its_place() -> None:
    made = tree(tasks("main", "x"), sent("a"), sent("a1", "a"), tasks("a1", "1"))
    assert [(each.agent, each.sender, each.task) for each in made.below()] == [("a1", "main", "x")]
    assert [each.sender for each in made.below("a")] == ["a"]
    made.handle(tasks("a", "1"))
    assert [(each.agent, each.sender) for each in made.below()] == [("a", "main"), ("a1", "a")]


def test_agents_that_sent_each_other_hang_nowhere() -> None:
    made = tree(
        sent("a", "b"), sent("b", "a"), sent("c", "c"), tasks("a", "1"), tasks("b", "1"), tasks("c", "1")
    )
    assert made.below() == ()
