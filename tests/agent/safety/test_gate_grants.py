"""Lasting yeses at the gate: recorded first, found again later, none for what guards the guard."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.home import Home
from agent.events import Decision
from agent.safety.gate import Gate, Ruling
from agent.safety.grants import Grants
from agent.safety.rules import Verdict
from tools.results import DeniedError
from tools.services.actions import Action, RunCommand, WritePath


class Person:
    def __init__(self, choice: str) -> None:
        self.choice = choice
        self.asked: list[Verdict] = []

    async def ask(self, action: Action, verdict: Verdict) -> Decision:
        self.asked.append(verdict)
        return Decision(self.choice)  # type: ignore[arg-type]


def gate(tmp_path: Path, person: Person, log: list[Ruling] | None = None, **extra: object) -> Gate:
    home = Home(tmp_path / "home")
    workspace = tmp_path / "work"
    grants = Grants(workspace, home.grants, session="s1")
    audit = (log if log is not None else []).append
    return Gate.for_home(home, workspace, "careful", person, **({"grants": grants, "audit": audit} | extra))  # type: ignore[arg-type]


def push(tmp_path: Path, **ways: bool) -> RunCommand:
    return RunCommand(tool="terminal", command="git push", cwd=tmp_path / "work", **ways)


async def test_always_holds_in_the_next_session_until_it_is_taken_back(tmp_path: Path) -> None:
    log: list[Ruling] = []
    await gate(tmp_path, Person("always"), log).permit(push(tmp_path))
    later = gate(tmp_path, Person("deny"), log)
    await later.permit(push(tmp_path))
    assert later.decide(push(tmp_path)).reasons == ("always allowed in this workspace",)
    (grant,) = later.grants.all()
    assert [(each.judge, each.grant) for each in log] == [("person", grant.id), ("grant", grant.id)]
    with pytest.raises(DeniedError):
        await later.permit(push(tmp_path, background=True))
    assert await later.grants.revoke(grant)
    with pytest.raises(DeniedError):
        await later.permit(push(tmp_path))


@pytest.mark.parametrize("choice", ["session", "always"])
async def test_what_runs_something_later_is_asked_every_time(tmp_path: Path, choice: str) -> None:
    person = Person(choice)
    the_gate = gate(tmp_path, person)
    the_gate.mode = "yolo"
    for action in (
        WritePath(tool="write_file", path=tmp_path / "work" / ".git" / "hooks" / "pre-commit"),
        RunCommand(tool="terminal", command="echo x > .envrc", cwd=tmp_path / "work"),
    ):
        for _ in range(2):
            await the_gate.permit(action)
    assert len(person.asked) == 4 and all(verdict.once for verdict in person.asked)
    assert the_gate.grants.all() == ()


async def test_a_yes_that_cannot_be_recorded_grants_nothing(tmp_path: Path) -> None:
    def full(_ruling: Ruling) -> None:
        raise DeniedError("the disk is full")

    the_gate = gate(tmp_path, Person("always"), audit=full)
    with pytest.raises(DeniedError, match="full"):
        await the_gate.permit(push(tmp_path))
    assert the_gate.grants.all() == ()


async def test_a_grant_lifts_no_hardline(tmp_path: Path) -> None:
    the_gate = gate(tmp_path, Person("always"))
    action = RunCommand(tool="terminal", command="rm -rf /", cwd=tmp_path / "work")
    grant = the_gate.grants.prepare(action, "always")
    assert grant is not None
    await the_gate.grants.give(grant)
    with pytest.raises(DeniedError, match="never allowed"):
        await the_gate.permit(action)
