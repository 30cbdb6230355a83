"""Taking files back is judged like changing each of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.core.messages import MODES, Mode
from agent.safety.gate import Gate
from agent.safety.grants import subject
from agent.safety.impact import ActionEnvironment, impact
from agent.safety.permissions.policy import Permissions
from agent.safety.rules import Verdict
from tools.results import DeniedError
from tools.services.actions import RestoreFiles


class Bench:
    def __init__(self, root: Path) -> None:
        self.home = Home(root / "home" / ".hermes")
        self.home.root.mkdir(parents=True)
        self.workspace = root / "work"
        self.workspace.mkdir()

    def gate(self, rules: Sequence[str] = (), mode: str = "normal") -> Gate:
        lines = "".join(f"  - {rule}\n" for rule in rules)
        self.home.permissions.write_text(f"rules:\n{lines}" if rules else "")
        permissions = Permissions(self.home, self.workspace, "tui", person=self.home.root.parent)
        assert permissions.current().problems == ()
        return Gate.for_home(self.home, self.workspace, mode, permissions=permissions)  # type: ignore[arg-type]

    def back(self, *names: str, removes: Sequence[str] = ()) -> RestoreFiles:
        paths, gone = ([self.workspace / name for name in each] for each in (names, removes))
        return RestoreFiles(tool="checkpoint", position=3, paths=tuple(paths), removes=tuple(gone))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_says_of_it_what_it_says_of_edits(bench: Bench, mode: Mode) -> None:
    expected = {"careful": "ask", "normal": "allow", "yolo": "allow", "plan": "deny", "deny": "deny"}
    for action in (bench.back("a", "b"), bench.back(removes=["a"]), bench.back("a", removes=["b"])):
        verdict = bench.gate(mode=mode).decide(action)
        assert verdict.kind == expected[mode]
        assert verdict.reasons


@pytest.mark.parametrize("mode", ["careful", "normal", "yolo"])
def test_one_guarded_file_makes_it_ask_in_every_mode(bench: Bench, mode: Mode) -> None:
    for action in (
        bench.back("a", ".git/hooks/pre-commit"),
        bench.back("a", removes=[".git/hooks/pre-commit"]),
    ):
        verdict = bench.gate(mode=mode).decide(action)
        assert verdict.kind == "ask"
        assert any("hooks" in reason for reason in verdict.reasons)


def test_one_file_outside_of_the_workspace_makes_it_ask(bench: Bench) -> None:
    action = RestoreFiles(tool="checkpoint", position=1, paths=(bench.workspace / "a", Path("/srv/b")))
    assert bench.gate().decide(action).kind == "ask"


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("write_file(lock/**): deny", "deny"),
        ("checkpoint: deny", "deny"),
        ("checkpoint: allow", "allow"),
        ("write_file(src/**): allow", "ask"),
        ("write_file: allow", "allow"),
    ],
)
def test_rules_for_files_and_for_the_tool_hold(bench: Bench, rule: str, kind: str) -> None:
    assert bench.gate([rule], "careful").decide(bench.back("src/a", "lock/b")).kind == kind


def test_a_rule_about_deleting_holds_for_what_would_go_away(bench: Bench) -> None:
    gate = bench.gate(["delete_file: deny"], "careful")
    assert gate.decide(bench.back("a", removes=["b"])).kind == "deny"
    assert gate.decide(bench.back("a")).kind == "ask"


@pytest.mark.parametrize("mode", MODES)
def test_losing_everything_is_never_allowed(bench: Bench, mode: Mode) -> None:
    action = RestoreFiles(tool="checkpoint", position=1, paths=(), removes=(bench.home.root.parent,))
    assert bench.gate(mode=mode).decide(action).kind == "hardline"


def test_a_reason_names_the_files_it_is_about(bench: Bench) -> None:
    verdict = bench.gate(["write_file(lock/**): deny"]).decide(bench.back("a", "lock/b"))
    assert str(bench.workspace / "lock/b") in verdict.reasons[0]
    assert str(bench.workspace / "a") not in verdict.reasons[0]


def test_a_yes_to_it_is_never_lasting(bench: Bench) -> None:
    assert subject(bench.back("a")) is None


async def test_without_a_person_it_does_not_happen(bench: Bench) -> None:
    with pytest.raises(DeniedError):
        await bench.gate(mode="careful").permit(bench.back("a"))
    await bench.gate().permit(bench.back("a"))


@pytest.mark.thorough
def test_many_files_are_judged_once_each(bench: Bench) -> None:
    names = [f"folder-{number % 40}/file-{number}" for number in range(2_000)]
    verdict = bench.gate(["write_file(secret/**): deny"], "careful").decide(bench.back(*names))
    assert verdict == Verdict("ask", ("overwrites files with what they held earlier", "changes a file"))


def test_the_headline_is_one_line_that_names_everything(bench: Bench) -> None:
    action = bench.back("a", "b\nc", removes=["d"])
    where = bench.workspace
    assert action.headline() == (
        f"take 2 files back to step 3: {where}/a, {where}/b\\nc; remove 1 file made after step 3: {where}/d"
    )
    seen = impact(action, Verdict("ask"), ActionEnvironment(where, bench.home.root.parent))
    assert seen.touches == ("a", "b\nc", "d")
