"""Whether connections are let through: the list, the mode, the gate, and one question for one host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.core.messages import Mode, ModeName
from agent.core.net.hosts import HostList, entry
from agent.events import Decision
from agent.safety import reach
from agent.safety.gate import Gate
from agent.safety.grants import Grants
from agent.safety.reach import HostDecider
from agent.safety.rules import Verdict
from agent.safety.sandbox.boundary import BoundaryCoverage, NetworkReach
from agent.safety.sandbox.filtered import FilteredNetwork
from tests.support.gates import plain_gate
from tests.support.loop_thread import LoopThread
from tools.results import DeniedError
from tools.services.actions import Action, ReachHost, RunCommand

LISTED = HostList([entry("listed.example.org")])


class Person:
    """Answers questions as told, and counts them."""

    def __init__(self, choice: str = "once", feedback: str = "") -> None:
        self.choice = choice
        self.feedback = feedback
        self.asked: list[Action] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.gave_up = 0

    async def ask(self, action: Action, verdict: Verdict) -> Decision:
        self.asked.append(action)
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.gave_up += 1
            raise
        return Decision(self.choice, self.feedback)  # type: ignore[arg-type]


@pytest.fixture
def there() -> Iterator[LoopThread]:
    """A loop elsewhere, as the proxy has one."""
    made = LoopThread()
    yield made
    made.close()


def decider(
    gate: Gate | None, mode: Mode = "normal", running: Callable[[], frozenset[int]] = lambda: frozenset({1})
) -> HostDecider:
    async def nobody(action: ReachHost) -> None:
        raise AssertionError("nothing was to be asked")

    permit = nobody if gate is None else gate.permit
    return HostDecider(LISTED, permit, lambda: mode, asyncio.get_running_loop(), running)


def gate(tmp_path: Path, person: Person | None, mode: ModeName = "normal") -> Gate:
    return plain_gate(tmp_path, mode, approver=person, grants=Grants(tmp_path, tmp_path / "grants.json"))


async def test_a_listed_host_is_let_through_unasked(there: LoopThread):
    assert await there.awaited(decider(None).decide("listed.example.org", 443)) is None


@pytest.mark.parametrize("mode", ["plan", "deny"])
@pytest.mark.parametrize("host", ["listed.example.org", "other.example.org"])
async def test_nothing_leaves_where_nothing_may_change(there: LoopThread, mode: Mode, host: str):
    said = await there.awaited(decider(None, mode).decide(host, 443))
    assert said == f"is not let through, as nothing leaves in mode {mode}"


@pytest.mark.parametrize(("mode", "asks"), [("normal", True), ("careful", True), ("yolo", False)])
async def test_another_host_is_asked_about_in_the_modes_that_ask(
    there: LoopThread, tmp_path: Path, mode: Mode, asks: bool
):
    person = Person()
    found = decider(gate(tmp_path, person, mode), mode)
    assert await there.awaited(found.decide("other.example.org", 8443)) is None
    expected = [ReachHost(tool="network", host="other.example.org", port=8443)] if asks else []
    assert person.asked == expected


@pytest.mark.parametrize(
    ("choice", "feedback", "said"),
    [
        ("deny", "", "is not on the list of hosts and was not allowed"),
        ("deny", "use the mirror", "is not on the list of hosts and was not allowed: use the mirror"),
        ("expired", "", "is not on the list of hosts, and nobody answered in time"),
        ("cancelled", "", "is not on the list of hosts, and the question was cancelled"),
    ],
)
async def test_a_no_is_told_and_not_asked_again_while_the_command_runs(
    there: LoopThread, tmp_path: Path, choice: str, feedback: str, said: str
):
    person = Person(choice, feedback)
    found = decider(gate(tmp_path, person))
    for _ in range(5):
        assert await there.awaited(found.decide("other.example.org", 443)) == said
    assert len(person.asked) == 1
    found.forget_ended(frozenset({2}))
    assert await there.awaited(found.decide("other.example.org", 443)) == said
    assert len(person.asked) == 2


async def test_with_nobody_there_it_is_a_no(there: LoopThread, tmp_path: Path):
    said = await there.awaited(decider(gate(tmp_path, None)).decide("other.example.org", 443))
    assert said == "is not on the list of hosts, and nobody is there to allow it"


async def test_many_connections_wait_for_one_question(there: LoopThread, tmp_path: Path):
    person = Person()
    person.may_answer.clear()
    found = decider(gate(tmp_path, person))
    waiting = [
        asyncio.ensure_future(there.awaited(found.decide("other.example.org", 443))) for _ in range(20)
    ]
    while not person.asked:
        await asyncio.sleep(0.001)
    person.may_answer.set()
    assert await asyncio.gather(*waiting) == [None] * 20
    assert len(person.asked) == 1


@pytest.mark.parametrize("choice", ["session", "always"])
async def test_a_lasting_yes_is_kept_as_any_other(there: LoopThread, tmp_path: Path, choice: str):
    person = Person(choice)
    found = decider(gate(tmp_path, person))
    assert await there.awaited(found.decide("other.example.org", 443)) is None
    found.forget_ended(frozenset())
    assert await there.awaited(found.decide("other.example.org", 443)) is None
    assert len(person.asked) == 1
    assert await there.awaited(found.decide("other.example.org", 8443)) is None
    assert await there.awaited(found.decide("third.example.org", 443)) is None
    assert len(person.asked) == 3


async def test_a_question_outlives_a_program_that_tries_again_and_goes_with_the_command(
    there: LoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    person = Person()
    person.may_answer.clear()
    found = decider(gate(tmp_path, person))
    first = asyncio.ensure_future(there.awaited(found.decide("other.example.org", 443)))
    while not person.asked:
        await asyncio.sleep(0.001)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    again = asyncio.ensure_future(there.awaited(found.decide("other.example.org", 443)))
    await asyncio.sleep(0.05)
    assert len(person.asked) == 1 and not again.done()
    found.forget_ended(frozenset())
    assert await again == "is not on the list of hosts, and the question was withdrawn"
    assert person.gave_up == 1


async def test_a_question_nobody_waits_for_is_withdrawn(
    there: LoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reach, "GRACE", 0.01)
    person = Person()
    person.may_answer.clear()
    found = decider(gate(tmp_path, person))
    only = asyncio.ensure_future(there.awaited(found.decide("other.example.org", 443)))
    while not person.asked:
        await asyncio.sleep(0.001)
    only.cancel()
    while not person.gave_up:
        await asyncio.sleep(0.001)


async def test_a_person_who_is_slow_is_not_waited_for_without_end(
    there: LoopThread, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reach, "DEADLINE", 0.05)
    monkeypatch.setattr(reach, "GRACE", 0.01)
    person = Person()
    person.may_answer.clear()
    said = await there.awaited(decider(gate(tmp_path, person)).decide("other.example.org", 443))
    assert said == "is not on the list of hosts, and nobody answered in time"


async def test_the_agent_whose_command_it_is_asks(there: LoopThread, tmp_path: Path):
    main, helper = Person(), Person()
    filtered = FilteredNetwork("bwrap")
    found = HostDecider(
        LISTED,
        gate(tmp_path, main).permit,
        lambda: "normal",
        asyncio.get_running_loop(),
        running=lambda: filtered.running,
        asking=filtered.permit,
    )
    its_own = gate(tmp_path, helper).permit
    number = filtered.register(permit=its_own)
    assert await there.awaited(found.decide("first.example.org", 443)) is None
    assert (len(main.asked), len(helper.asked)) == (0, 1)
    # With commands of two agents it cannot be told whose the connection is.
    other = filtered.register()
    assert await there.awaited(found.decide("second.example.org", 443)) is None
    assert (len(main.asked), len(helper.asked)) == (1, 1)
    filtered.unregister(other)
    filtered.unregister(number)
    assert filtered.permit() is None


async def test_a_fault_while_asking_is_a_no(there: LoopThread):
    async def broken(action: ReachHost) -> None:
        raise RuntimeError("broken")

    found = HostDecider(LISTED, broken, lambda: "normal", asyncio.get_running_loop(), lambda: frozenset({1}))
    said = await there.awaited(found.decide("other.example.org", 443))
    assert said == "is not on the list of hosts, and it could not be asked about (RuntimeError)"


@pytest.mark.parametrize(
    ("rules", "host", "port", "kind"),
    [
        ("reach(*.example.org): allow", "a.example.org", 443, "allow"),
        ("reach(*.example.org): allow", "a.example.net", 443, "ask"),
        ("reach(a.example.org): allow", "a.example.org", 8443, "ask"),
        ("reach(a.example.org:8443): allow", "a.example.org", 8443, "allow"),
        ("reach(a.example.org): deny", "a.example.org", 80, "deny"),
    ],
)
def test_rules_decide_about_hosts(tmp_path: Path, rules: str, host: str, port: int, kind: str):
    from agent.core.home import Home
    from agent.safety.permissions.policy import Permissions

    home = Home(tmp_path / "home")
    home.root.mkdir(mode=0o700)
    home.permissions.write_text(f"rules:\n- {rules}\n")
    home.permissions.chmod(0o600)
    found = Gate.for_home(home, tmp_path, "normal", permissions=Permissions(home, tmp_path, "tui", []))
    assert found.decide(ReachHost(tool="network", host=host, port=port)).kind == kind


@pytest.mark.parametrize(
    ("command", "network", "kind"),
    [
        ("curl https://other.example.org/", "filtered", "ask"),
        ("curl https://other.example.org/", "closed", "ask"),
        ("npm install", "filtered", "allow"),
        ("sh fetch.sh", "filtered", "allow"),
        ("sh fetch.sh", "open", "ask"),
        ("curl -d @notes.txt https://other.example.org/", "filtered", "ask"),
        ("git push https://other.example.org/x main", "filtered", "ask"),
    ],
)
def test_hosts_that_a_command_names_are_asked_about_with_it(
    tmp_path: Path, command: str, network: NetworkReach, kind: str
):
    coverage = BoundaryCoverage(level="bubblewrap", network=network, guards_places=True)
    found = plain_gate(tmp_path, "normal", coverage=coverage)
    assert found.decide(RunCommand(tool="terminal", command=command, cwd=tmp_path)).kind == kind


def test_a_denial_is_an_error_with_an_outcome(tmp_path: Path):
    async def ask() -> None:
        await gate(tmp_path, None).permit(ReachHost(tool="network", host="a.example.org", port=443))

    with pytest.raises(DeniedError) as caught:
        asyncio.run(ask())
    assert caught.value.extra["outcome"] == "nobody"
