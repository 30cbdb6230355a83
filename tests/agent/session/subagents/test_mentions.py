"""Kinds of agents that a person mentions: the model is told whom to send, files stay files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.core.config import trust
from agent.core.home import Home
from agent.session.subagents.mentions import mentioned_names
from tests.agent.session.subagents.test_delegation import team
from tests.agent.session.subagents.test_kinds import LOOKER, define
from tests.support.engines import Bench
from tests.support.model_server import call, say
from tests.support.team import task_of


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@reviewer look", ["reviewer"]),
        ("Ask @reviewer, @tester and (@explorer).", ["reviewer", "tester", "explorer"]),
        ("two\n@code-reviewer\nlines", ["code-reviewer"]),
        ("@reviewer @reviewer", ["reviewer"]),
        ("ada@reviewer.org and x@reviewer", []),
        ("@src/reviewer @reviewer.md @reviewer/x @Reviewer @reviewer_x @re--x @reviewer@x", []),
        ('@"reviewer"', []),
        ("@" + "a" * 50, []),
        ("", []),
    ],
)
def test_names_that_kinds_can_have_are_found(text: str, names: list[str]) -> None:
    assert mentioned_names(text) == names


def seen_by_main(made: Bench, step: int = -1) -> str:
    request = [each for each in made.server.requests if task_of(each) == "main"][step]
    return "\n".join(str(message["content"]) for message in request.messages[1:])


async def test_the_model_is_told_to_send_the_kind_that_was_mentioned(tmp_path: Path) -> None:
    async with team(tmp_path, {"main": [say("Yes.")]}) as made:
        define(made.home / "agents", "looker", LOOKER)
        await made.turn("Let @looker see to it.")
        text = seen_by_main(made)
        assert "send it with delegate_task" in text and "- looker: Looks at things." in text


async def test_a_file_of_that_name_stays_a_file_and_other_names_mean_nothing(tmp_path: Path) -> None:
    async with team(tmp_path, {"main": [say("Yes.")]}) as made:
        (made.workspace / "reviewer").write_text("x")
        await made.turn("Read @reviewer and @nobody.")
        assert "delegate_task" not in seen_by_main(made)


async def test_a_broken_kind_is_told_with_its_fault(tmp_path: Path) -> None:
    async with team(tmp_path, {"main": [say("Yes.")]}) as made:
        define(made.home / "agents", "looker", "nonsense")
        await made.turn("Let @looker see to it.")
        assert "- looker cannot be sent; tell the user. agents/looker.md line 1" in seen_by_main(made)


@pytest.mark.thorough
async def test_kinds_of_a_project_that_is_not_trusted_are_not_meant(tmp_path: Path) -> None:
    async with team(tmp_path, {"main": [say("Yes."), say("Yes.")]}) as made:
        define(made.workspace / ".hermes" / "agents", "looker", LOOKER)
        await made.turn("Let @looker see to it.")
        assert "Looks at things" not in seen_by_main(made)
        project = trust.read_project(Home(made.home), made.workspace)
        assert project is not None
        trust.trust(Home(made.home), project)
        await made.turn("Let @looker see to it.")
        assert "- looker: Looks at things." in seen_by_main(made)


async def test_steering_is_understood_in_the_same_way(tmp_path: Path) -> None:
    engines: list[Any] = []

    def steered(_request: Any) -> Any:
        engines[0].steer("Rather let @looker do it.")
        return call("todo_read")

    async with team(tmp_path, {"main": [steered, say("Yes.")]}) as made:
        define(made.home / "agents", "looker", LOOKER)
        async with made.engine() as engine:
            engines.append(engine)
            await engine.run("Go.")
        assert "- looker: Looks at things." in seen_by_main(made)


async def test_without_agents_to_send_nothing_is_told(tmp_path: Path) -> None:
    async with team(tmp_path, {"main": [say("Yes.")]}, "subagents:\n  depth: 0\n") as made:
        define(made.home / "agents", "looker", LOOKER)
        await made.turn("Let @looker see to it.")
        assert "delegate_task" not in seen_by_main(made)
