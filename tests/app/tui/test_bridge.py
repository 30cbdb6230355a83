"""Events in, calls of panes out."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agent.core.event_data import Usage
from agent.events import (
    AgentProgressed,
    AgentStarted,
    AssistantMessageAdded,
    FileChange,
    FilesChanged,
    Noticed,
    PrefixBroken,
    QuestionAsked,
    QueueChanged,
    ReasoningAdded,
    ReplyCut,
    RequestResolved,
    RetryScheduled,
    SessionOpened,
    TextAdded,
    TodosChanged,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageChanged,
    UserMessageAdded,
)
from app.tui.conversation.bridge import KEPT_RESULTS, Bridge, changed_files, turn_end_notices
from app.tui.terminal.attention import Attention
from tools.context import PersonAnswer, Todo
from tools.results import DiffDetail, Display

DIFF = (
    "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n one\n-two\n+2\n+++ three\n"
    "--- a/y\n+++ b/y\n@@ -0,0 +1 @@\n+new\n"
)


class Recorder:
    """A pane that keeps what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.busy = False
        self.queued: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        def told(*arguments: Any, **named: Any) -> None:
            self.calls.append((name, *arguments, *named.values()))

        return told

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


class Panes:
    def __init__(self) -> None:
        self.transcript, self.prompt, self.status = Recorder(), Recorder(), Recorder()
        self.todo, self.calls, self.files = Recorder(), Recorder(), Recorder()
        self.agents = Recorder()


class Fixture:
    def __init__(self) -> None:
        self.panes, self.requests, self.rung = Panes(), Recorder(), []
        self.attention = Attention(self.rung.append, {})
        self.bridge = Bridge(self.panes, self.requests, self.attention, clock=lambda: 7.0)  # type: ignore[arg-type]


@pytest.fixture
def all_() -> Fixture:
    return Fixture()


SHOW = Display("run", "ls")
ENDED = {"text": "", "session": "s", "usage": {}}


@pytest.mark.parametrize(
    ("event", "call"),
    [
        (UserMessageAdded(node=1, text="hi", origin="steer"), ("add_user", "hi", 1, "steer", ())),
        (TextAdded(text="a"), ("add_text", "a")),
        (ReasoningAdded(text="r"), ("add_reasoning", "r")),
        (AssistantMessageAdded(node=2, text="a", reasoning="r"), ("finish_answer", "a", "r", 2)),
        (ReplyCut(reason="gone"), ("mark_interrupted",)),
        (
            ToolStarted(call="c", tool="t", arguments={"x": 1}, display=SHOW),
            ("start_call", "c", "t", SHOW, {"x": 1}),
        ),
        (ToolProgressed(call="c", text="out"), ("progress_call", "c", "out")),
        (Noticed(kind="recovery", text="n"), ("add_notice", "recovery", "n", "")),
        (
            RetryScheduled(reason="Busy (HTTP 503): go away; wait.", delay=1.25, attempt=2, model="m"),
            (
                "add_notice",
                "warning",
                "Busy (HTTP 503): go away; wait. Trying again in 1.2\N{NO-BREAK SPACE}s (m).",
                "",
            ),
        ),
        (
            RetryScheduled(reason="Cannot reach http://x/v1: no; wait.", delay=2, attempt=3, model="m"),
            (
                "add_notice",
                "warning",
                "Cannot reach http://x/v1. Trying again in 2.0\N{NO-BREAK SPACE}s (m).",
                "",
            ),
        ),
        (
            RetryScheduled(reason="It broke off (lost); try again.", delay=1, attempt=2, model="m"),
            ("add_notice", "warning", "It broke off (lost). Trying again in 1.0\N{NO-BREAK SPACE}s (m).", ""),
        ),
        (
            RetryScheduled(reason="Busy; try again later or choose `x`.", delay=1, attempt=4, model="m"),
            ("add_notice", "warning", "Busy. Trying again in 1.0\N{NO-BREAK SPACE}s (m).", "Trying again"),
        ),
        (
            RetryScheduled(reason="Busy.", delay=0, attempt=1, model="other"),
            ("add_notice", "warning", "Busy. Going on with other.", ""),
        ),
        (
            PrefixBroken(reason="compaction", declared=False),
            ("add_notice", "info", "The provider's cache starts over: compaction."),
        ),
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_an_event_of_the_main_agent_is_shown(all_: Fixture, event: Any, call: tuple[Any, ...]) -> None:
    all_.bridge(event)
    assert all_.panes.transcript.calls == [call]


def test_a_call_of_a_subagent_is_in_the_log_and_not_in_the_conversation(all_: Fixture) -> None:
    all_.bridge(ToolStarted(agent="sub-1", call="c", tool="t", arguments={}, display=SHOW))
    assert all_.panes.transcript.calls == []
    assert all_.panes.calls.calls == [("start", "sub-1/c", "t", SHOW, None, "sub-1")]


def test_a_call_of_a_script_is_in_the_log_below_it_and_no_card(all_: Fixture) -> None:
    all_.bridge(ToolStarted(call="c.1", parent="c", tool="t", arguments={}, display=SHOW))
    all_.bridge(ToolProgressed(call="c.1", text="x"))
    all_.bridge(
        ToolFinished(
            node=1, call="c.1", parent="c", tool="t", outcome="done", seconds=0.1, result="{}", display=SHOW
        )
    )
    assert "start_call" not in all_.panes.transcript.names()
    assert "finish_call" not in all_.panes.transcript.names()
    assert all_.panes.calls.calls[0] == ("start", "c.1", "t", SHOW, "c", "main")
    assert all_.panes.calls.names() == ["start", "progress", "finish"]


def edited(outcome: Any) -> ToolFinished:
    display = Display("edit", "x.py", "+2 −1", DiffDetail(DIFF))
    return ToolFinished(
        node=3, call="c", tool="patch", outcome=outcome, seconds=0.5, result="{}", display=display
    )


def test_a_finished_edit_is_recorded_for_each_file(all_: Fixture) -> None:
    all_.bridge(edited("done"))
    assert recorded(all_) == [("x.py", 2, 1), ("y", 1, 0)]
    assert DIFF in all_.bridge.call_in_full("c") and all_.bridge.call_in_full("other") == ""
    assert all_.panes.calls.names() == ["finish"]


def test_only_the_last_results_are_kept(all_: Fixture) -> None:
    for number in range(KEPT_RESULTS + 5):
        all_.bridge(replace(edited("failed"), call=str(number)))
    assert all_.bridge.call_in_full("4") == "" and DIFF in all_.bridge.call_in_full("5")


def recorded(all_: Fixture) -> list[tuple[str, int, int]]:
    return [
        (change.path, change.added, change.removed)
        for call in all_.panes.files.calls
        if call[0] == "record"
        for change in call[1]
    ]


SEEN = (FileChange("x.py", "modified", 2, 1, "seen"), FileChange("made.o", "added", 7, 0, "seen"))


@pytest.mark.parametrize("late", [False, True])
def test_what_a_call_tells_and_what_was_seen_is_counted_once(all_: Fixture, late: bool) -> None:
    seen = FilesChanged(by="agent", call="c", files=SEEN)
    for event in (edited("done"), seen) if late else (seen, edited("done")):
        all_.bridge(event)
    assert recorded(all_) == [("x.py", 2, 1), ("y", 1, 0), ("made.o", 7, 0)]


def test_changes_of_a_command_are_recorded_when_it_ends_even_badly(all_: Fixture) -> None:
    all_.bridge(FilesChanged(by="agent", call="c", files=SEEN))
    assert recorded(all_) == []
    all_.bridge(edited("failed"))
    assert recorded(all_) == [("x.py", 2, 1), ("made.o", 7, 0)]


def test_changes_in_a_copy_are_not_those_of_the_workspace(all_: Fixture) -> None:
    all_.bridge(AgentStarted(agent="a", name="a", goal="", in_copy=True))
    all_.bridge(replace(edited("done"), agent="a"))
    assert recorded(all_) == []


def test_changes_of_others_are_told_apart(all_: Fixture) -> None:
    all_.bridge(FilesChanged(by="others", files=SEEN[:1]))
    (_, _changes, outside), *_ = all_.panes.files.calls
    assert outside is True


@pytest.mark.parametrize("by", ["others", "agent"])
def test_files_that_are_not_named_are_counted(all_: Fixture, by: Any) -> None:
    all_.bridge(FilesChanged(by=by, files=SEEN[:1], more=7))
    assert ("count_unnamed", 7, by == "others") in all_.panes.files.calls


def test_a_failed_edit_changes_no_file(all_: Fixture) -> None:
    all_.bridge(edited("failed"))
    assert all_.panes.files.calls == []


def test_a_plus_line_that_looks_like_a_header_is_a_line() -> None:
    assert [change[1:] for change in changed_files(DIFF)] == [(2, 1), (1, 0)]
    assert changed_files("nothing of a diff") == []


def test_a_turn_makes_busy_and_idle(all_: Fixture) -> None:
    all_.bridge(TurnStarted(turn=1))
    assert all_.panes.prompt.busy and all_.bridge.state.busy_since == 7.0
    all_.bridge(TurnEnded(outcome="failed", error="No network.", exit_code=3, cause="unreachable", **ENDED))
    assert not all_.panes.prompt.busy and all_.bridge.state.busy_since is None
    assert all_.bridge.state.trouble == "offline"
    assert all_.panes.transcript.calls == [("add_notice", "error", "No network.")]
    all_.bridge(TurnStarted(turn=2))
    assert not all_.bridge.state.trouble


def test_the_oldest_running_call_of_the_main_agent_is_named(all_: Fixture) -> None:
    def start(call: str, verb: str, **more: str) -> None:
        display = Display(verb, "x")
        all_.bridge(ToolStarted(call=call, tool="t", arguments={}, display=display, **more))

    def end(call: str) -> None:
        all_.bridge(
            ToolFinished(node=1, call=call, tool="t", outcome="done", seconds=1.0, result="{}", display=SHOW)
        )

    start("a", "write")
    start("b", "run")
    start("b.1", "read", parent="b")
    start("s", "look", agent="sub-1")
    assert all_.bridge.state.activity == "Writing x"
    end("a")
    assert all_.bridge.state[-3:-1] == ("Running x", 7.0)
    end("b")
    assert not all_.bridge.state.activity
    start("c", "skill")
    assert all_.bridge.state.activity == "Running skill x"
    all_.bridge(TurnEnded(outcome="interrupted", **ENDED))
    assert not all_.bridge.state.activity


def test_the_status_line_says_what_is_wrong_with_the_model_and_not_always_that_it_is_offline(
    all_: Fixture,
) -> None:
    for cause, said in (("auth", "access refused"), ("bad_request", "no answer")):
        all_.bridge(TurnEnded(outcome="failed", error="No.", exit_code=3, cause=cause, **ENDED))
        assert all_.bridge.state.trouble == said


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("done", []),
        ("interrupted", ["Stopped."]),
        ("denied", ["An action was denied in this turn."]),
        ("failed", ["The turn failed."]),
    ],
)
def test_how_a_turn_ended_is_said(outcome: Any, words: list[str]) -> None:
    assert [text for _, text in turn_end_notices(TurnEnded(outcome=outcome, **ENDED))] == words


def test_usage_is_in_the_status(all_: Fixture) -> None:
    all_.bridge(
        UsageChanged(
            request=Usage(1, 2, 0),
            session_input=2_000,
            session_output=50,
            session_cached=500,
            session_cost=0.25,
            context_used=4_000,
            context_window=8_000,
        )
    )
    assert all_.bridge.state.cache == 0.25 and all_.bridge.state.context_window == 8_000


async def test_requests_go_to_their_queue_and_ring_for_who_is_away(all_: Fixture) -> None:
    reply: asyncio.Future[PersonAnswer] = asyncio.get_running_loop().create_future()
    asked = QuestionAsked(id="q", question="?", choices=(), allow_freetext=True, reply=reply)
    all_.bridge(asked)
    assert all_.rung == ["\x1b]2;hermes needs you\x07"]  # only the title of the window
    all_.attention.focus(False)
    all_.bridge(asked)
    assert len(all_.rung) == 3  # besides the title: the bell and a notification
    all_.bridge(RequestResolved(id="q", outcome="answered"))
    assert all_.requests.calls == [("add", asked), ("add", asked), ("close_request", "q")]


def test_queue_and_tasks_reach_their_panes(all_: Fixture) -> None:
    all_.bridge(QueueChanged(queued=("a", "b")))
    todos = (Todo("1", "x", "pending"),)
    all_.bridge(TodosChanged(items=todos))
    assert all_.panes.prompt.queued == ("a", "b") and all_.panes.todo.calls == [("show", todos, ())]


def test_another_session_begins_with_a_clean_screen(all_: Fixture) -> None:
    all_.bridge(TurnStarted(turn=1))
    all_.bridge(SessionOpened(session="s", title="T", model="m", workspace="/a/b"))
    assert (
        all_.bridge.state.title == "T"
        and all_.bridge.state.folder == "b"
        and all_.bridge.state.busy_since is None
    )
    assert not all_.panes.prompt.busy
    assert [pane.names() for pane in (all_.panes.transcript, all_.panes.calls, all_.panes.files)] == [
        ["begin_conversation"],
        ["clear"],
        ["clear"],
    ]
    assert all_.requests.names() == ["clear"]


def used(cost: float | None, agent: str = "main", context: int = 10) -> UsageChanged:
    return UsageChanged(
        agent=agent,
        request=Usage(1, 1),
        session_input=10,
        session_output=1,
        session_cached=5,
        session_cost=cost,
        context_used=context,
        context_window=100,
    )


def test_the_cost_of_a_session_counts_the_agents_it_sent(all_: Fixture) -> None:
    all_.bridge(AgentStarted(agent="a", name="a", goal=""))
    all_.bridge(AgentProgressed(agent="a", cost=0.25))
    assert all_.bridge.state.cost is None
    all_.bridge(used(0.5))
    assert all_.bridge.state.cost == 0.75
    all_.bridge(used(9.0, agent="a", context=99))
    assert (all_.bridge.state.cost, all_.bridge.state.context_used) == (0.75, 10)
    all_.bridge(AgentProgressed(agent="a", cost=None))
    assert all_.bridge.state.cost is None


def test_turns_and_queues_of_agents_are_not_those_of_the_session(all_: Fixture) -> None:
    all_.bridge(TurnStarted(turn=1))
    all_.bridge(QueueChanged(queued=("mine",)))
    all_.bridge(QueueChanged(agent="a", queued=(), steering=("theirs",)))
    all_.bridge(TurnEnded(agent="a", outcome="failed", **ENDED))  # type: ignore[arg-type]
    assert all_.panes.prompt.busy and all_.panes.prompt.queued == ("mine",)
    assert all_.bridge.state.busy_since == 7.0
