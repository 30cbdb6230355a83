"""Calls of agents of other programs: what the gate judges, and what people are told, as real programs act."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.events import AgentEnded, Decision, ToolFinished, ToolStarted
from tests.agent.session.subagents.test_delegation import results, team
from tests.support.engines import Bench
from tests.support.model_server import call, say

PROGRAM = Path(__file__).parents[3] / "support" / "foreign_script.py"
DENY = "rules:\n  terminal(echo *): deny\n"
ECHO = {"command": "echo made > made.txt"}


def begins(id: str, title: str, **more: Any) -> list[Any]:
    return ["tell", {"sessionUpdate": "tool_call", "toolCallId": id, "title": title, **more}]


def goes_on(id: str, **more: Any) -> list[Any]:
    return ["tell", {"sessionUpdate": "tool_call_update", "toolCallId": id, **more}]


def asks(id: str, **more: Any) -> list[Any]:
    return ["ask", {"toolCallId": id, **more}]


def says(text: str) -> list[Any]:
    content = {"type": "text", "text": text}
    return ["tell", {"sessionUpdate": "agent_message_chunk", "content": content}]


def text(words: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": words}}]


COMPLETED = says("Outcome: completed\n\nI have looked.")


@dataclass
class Played:
    """What an agent was answered, and what was told of it."""

    bench: Bench
    answers: list[Any] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    @property
    def report(self) -> dict[str, Any]:
        (result,) = results(self.bench)
        return result["results"][0]

    @property
    def choices(self) -> list[str]:
        return [each["outcome"].get("optionId", "cancelled") for each in self.answers if "outcome" in each]

    def started(self) -> list[str]:
        return [str(each.display.subject) for each in self.bench.seen(ToolStarted) if each.agent != "main"]

    def finished(self) -> list[tuple[str, str, str]]:
        ended = [each for each in self.bench.seen(ToolFinished) if each.agent != "main"]
        return [(each.call, str(each.display.subject), each.outcome) for each in ended]


async def play(
    folder: Path,
    *steps: list[Any],
    rules: str = "",
    attended: bool = False,
    approve: str | None = "all",
    settings: dict[str, Any] | None = None,
    modes: dict[str, Any] | None = None,
) -> Played:
    """Send an agent that plays the steps; a person says yes to each question, or nobody is there."""
    file = folder / "steps.json"
    file.write_text(json.dumps([["modes", modes], *steps, ["answer", {}]]))
    line = shlex.join([sys.executable, str(PROGRAM), str(file)])
    agent = json.dumps({"command": line, **(settings or {})})
    config = f"subagents: {{forecast_tokens: null}}\nagents: {{other: {agent}}}\n"
    script = {"main": [call("delegate_task", goal="do it", agent="other"), say("Over.")]}
    async with team(folder, script, config) as made:
        played = Played(made)
        if rules:
            (made.home / "permissions.yaml").write_text(rules)
        async with made.engine(approve=approve, attended=attended) as engine:

            def hear(event: Any) -> None:
                if hasattr(event, "reply") and hasattr(event, "headline"):
                    played.questions.append(event.headline)
                    event.reply.set_result(Decision("once"))

            engine.stream.subscribe(hear)
            assert (await engine.run("Send it.")).outcome == "done"
        log = Path(f"{file}.log")
        played.answers = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return played


CALL = {"title": "bash: echo made > made.txt", "kind": "execute"}
ASKED_ABOUT: list[tuple[str, list[list[Any]], str]] = [
    ("repeats-all", [asks("c1", **CALL, rawInput=ECHO)], "no"),
    ("only-the-id", [begins("c1", **CALL, rawInput=ECHO), asks("c1")], "no"),
    (
        "told-by-an-update",
        [begins("c1", "Terminal"), goes_on("c1", kind="execute", rawInput=ECHO), asks("c1")],
        "no",
    ),
    ("words-in-a-list", [asks("c1", kind="execute", rawInput={"command": ["bash", "-lc", "echo hi"]})], "no"),
    ("part-of-the-input", [begins("c1", **CALL, rawInput=ECHO), asks("c1", rawInput={"why": "x"})], "no"),
    (
        "another-kind",
        [begins("c1", **CALL, rawInput=ECHO), asks("c1", kind="think", rawInput={"a": 1})],
        "no",
    ),
    ("only-a-title", [asks("c1", title="echo made", kind="execute")], "no"),
    ("never-told", [asks("c1")], "no"),
    (
        "an-ended-id",
        [
            begins("c1", "look", kind="think", rawInput={"a": 1}),
            goes_on("c1", status="completed"),
            asks("c1"),
        ],
        "no",
    ),
    ("known-and-harmless", [asks("c1", kind="think", title="think", rawInput={"about": "it"})], "yes"),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("way", "steps", "choice"), ASKED_ABOUT, ids=[each[0] for each in ASKED_ABOUT])
async def test_what_was_told_is_judged_under_yolo_with_a_deny_rule(
    way: str, steps: list[list[Any]], choice: str, tmp_path: Path
) -> None:
    played = await play(tmp_path, *steps, COMPLETED, rules=DENY, approve="yolo")
    assert played.choices == [choice], way


async def test_a_person_is_asked_about_both_of_two_different_commands(tmp_path: Path) -> None:
    steps = [begins("c1", "ls", kind="execute", rawInput={"command": "ls"}), asks("c1", rawInput=ECHO)]
    played = await play(tmp_path, *steps, COMPLETED, attended=True, approve=None)
    assert played.choices == ["yes"]
    assert len(played.questions) == 2 and any("echo made" in each for each in played.questions)


READABLE: list[tuple[str, list[list[Any]]]] = [
    ("lines-in-a-list", [asks("c1", kind="execute", rawInput={"commands": ["ls", "echo hi"]})]),
    (
        "in-a-text",
        [
            begins("c1", "Bash", kind="execute", content=text('{"command": "echo hi"}')),
            asks("c1", title="Bash", content=text("To run: echo hi")),
        ],
    ),
    ("after-a-dollar", [asks("c1", title="terminal: echo", kind="execute", content=text("$ echo hi"))]),
]


@pytest.mark.parametrize(("way", "steps"), READABLE, ids=[each[0] for each in READABLE])
async def test_a_command_is_read_where_the_program_has_it(
    way: str, steps: list[list[Any]], tmp_path: Path
) -> None:
    played = await play(tmp_path, *steps, COMPLETED, rules=DENY, attended=True, approve=None)
    assert (played.choices, played.questions) == (["no"], []), way


async def test_a_missing_file_is_told_by_its_own_code_and_files_may_stay_with_the_program(
    tmp_path: Path,
) -> None:
    missing = ["send", "fs/read_text_file", {"path": str(tmp_path / "work" / "gone.txt")}]
    played = await play(tmp_path, missing, ["offered"], COMPLETED, settings={"files": False})
    assert played.answers[0]["code"] == -32002
    assert "fs" not in played.answers[1]


async def test_without_a_deny_rule_yolo_lets_an_unknown_call_pass(tmp_path: Path) -> None:
    assert (await play(tmp_path, asks("c1"), COMPLETED, approve="yolo")).choices == ["yes"]


async def test_refused_without_an_outcome_is_failed_and_says_what_was_refused(tmp_path: Path) -> None:
    steps = [
        begins("c1", "bash", kind="execute", status="pending", rawInput={"cwd": "/"}),
        goes_on("c1", status="in_progress", rawInput=ECHO),
        asks("c1"),
        goes_on("c1", status="failed"),
        asks("g1", title="fetch a page", kind="fetch"),
        says("I look first."),
    ]
    played = await play(tmp_path, *steps, rules=DENY, approve="yolo")
    assert played.report["outcome"] == "failed" and "echo made" in played.report["reason"]
    assert played.started() == ["echo made > made.txt", "fetch a page"]
    assert [each[2] for each in played.finished()] == ["denied", "denied"]
    assert played.report["usage"] == {"requests": None, "tokens": None, "cost": None}
    assert played.bench.seen(AgentEnded)[0].tokens is None


async def test_a_turn_that_ends_as_cancelled_after_a_refusal_is_failed(tmp_path: Path) -> None:
    steps = [asks("c1", kind="execute", rawInput=ECHO), ["answer", {"stopReason": "cancelled"}]]
    played = await play(tmp_path, *steps, rules=DENY, approve="yolo")
    assert played.report["outcome"] == "failed" and "echo made" in played.report["reason"]


async def test_titles_come_later_ids_come_again_and_usage_is_what_it_says(tmp_path: Path) -> None:
    cost = {"amount": 0.25, "currency": "USD"}
    steps = [
        says("I begin."),
        begins("c1", "Terminal", kind="execute", status="pending", rawInput={}),
        goes_on("c1", title="make test", rawInput={"command": "make test"}),
        goes_on("c1", status="completed"),
        goes_on("c1", title="something else", status="in_progress"),
        begins("c1", "Read a", kind="read", status="in_progress"),
        goes_on("c1", title="Read b", status="completed"),
        ["tell", {"sessionUpdate": "usage_update", "used": 900, "size": 9000, "cost": cost}],
        ["send", "terminal/create", {"command": "ls"}],
        COMPLETED,
        ["answer", {"usage": {"totalTokens": 1200, "inputTokens": 1000, "outputTokens": 200}}],
        says("After the answer."),
    ]
    played = await play(tmp_path, *steps)
    assert played.started() == ["make test", "Read a"]
    assert played.finished() == [("c1", "make test", "done"), ("c1#2", "Read b", "done")]
    assert played.report["outcome"] == "completed" and "After" not in played.report["summary"]
    assert played.report["usage"] == {"requests": None, "tokens": 1200, "cost": 0.25}
    assert played.report["summary"].startswith("I begin.\n")
    assert played.answers[0]["code"] == -32601


MODES = {
    "currentModeId": "auto",
    "availableModes": [{"id": "auto", "name": "A"}, {"id": "ask", "name": "B"}],
}


@pytest.mark.parametrize(("mode", "begins_in"), [("", "ask"), ("auto", None), ("plan", "failed")])
async def test_a_session_begins_in_a_mode_that_asks_unless_another_is_set(
    mode: str, begins_in: str | None, tmp_path: Path
) -> None:
    played = await play(tmp_path, COMPLETED, settings={"mode": mode}, modes=MODES)
    if begins_in == "failed":
        assert "has no mode 'plan'; it has auto, ask" in played.report["reason"]
    else:
        assert [each["modeId"] for each in played.answers] == ([begins_in] if begins_in else [])


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        (["exit", 0], "ended with 0"),
        (["fail", -32000, "sign in"], "signed in"),
        (["fail", -32603, "no"], "failed"),
    ],
)
async def test_an_end_in_the_middle_is_told_with_what_is_known(
    step: list[Any], cause: str, tmp_path: Path
) -> None:
    usage = ["tell", {"sessionUpdate": "usage_update", "used": 70, "size": 9000}]
    played = await play(tmp_path, begins("c1", "look", kind="search"), usage, step)
    assert played.report["outcome"] == "failed" and cause in played.report["reason"]
    assert played.report["usage"]["tokens"] == 70
    assert played.finished() == [("c1", "look", "interrupted")]
