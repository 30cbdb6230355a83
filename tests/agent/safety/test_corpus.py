from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from agent.core.event_data import VerdictKind
from agent.safety.hardline import Hardline
from tests.agent.safety.corpus_files import CLOSED, FOLDER, PLACES, WORKSPACE, assessor, commands

EFFECTS = Path(__file__).parent / "effects"
ASKED = (
    "hidden",
    "destructive",
    "obfuscated",
    "tricks",
    "exfiltration",
    "persistence",
    "privilege",
    "infrastructure",
    "project_programs",
)
"""Classes that a person is asked about where there is no boundary."""


@pytest.fixture(scope="module")
def verdicts() -> dict[tuple[str, bool], dict[str, VerdictKind]]:
    """What is said of every command, by class and whether there is a closed boundary."""
    found: dict[tuple[str, bool], dict[str, VerdictKind]] = {}
    for closed in (False, True):
        judge = assessor(CLOSED) if closed else assessor()
        for path in FOLDER.glob("*.txt"):
            said = {each: judge.assess(each, WORKSPACE).verdict for each in commands(path.stem)}
            for command, verdict in said.items():
                assert verdict.kind == "allow" or verdict.reasons, command
                assert all(reason.isprintable() and reason for reason in verdict.reasons), command
            found[path.stem, closed] = {command: verdict.kind for command, verdict in said.items()}
    return found


Verdicts = dict[tuple[str, bool], dict[str, VerdictKind]]


def test_the_corpus_is_large() -> None:
    assert sum(len(commands(path.stem)) for path in FOLDER.glob("*.txt")) > 10_000


@pytest.mark.thorough
def test_what_destroys_the_machine_is_refused_with_and_without_a_boundary(verdicts: Verdicts) -> None:
    for closed in (False, True):
        assert [c for c, kind in verdicts["hardline", closed].items() if kind != "hardline"] == []


@pytest.mark.thorough
def test_what_only_looks_like_it_is_not_refused() -> None:
    hardline = Hardline(PLACES)
    assert [c for c in commands("harmless") if hardline.check(c, WORKSPACE)] == []
    for name in ("everyday", "build_test", "mentions", "undoable"):
        assert [c for c in commands(name) if hardline.check(c, WORKSPACE)] == []


@pytest.mark.parametrize("name", ASKED)
def test_without_a_boundary_nothing_of_these_passes(verdicts: Verdicts, name: str) -> None:
    assert [c for c, kind in verdicts[name, False].items() if kind == "allow"] == []


def test_what_undo_brings_back_passes_also_without_a_boundary(verdicts: Verdicts) -> None:
    assert Counter(verdicts["undoable", False].values()).keys() == {"allow"}


def test_inside_a_closed_boundary_everyday_work_is_hardly_ever_asked_about(verdicts: Verdicts) -> None:
    for name in ("everyday", "build_test", "mentions", "project_programs"):
        kinds = Counter(verdicts[name, True].values())
        assert kinds["ask"] + kinds["hardline"] <= 0.005 * kinds.total(), name


@pytest.mark.parametrize("name", ["everyday_one", "everyday_two"])
def test_lists_that_were_written_before_the_rules_are_hardly_ever_asked_about(name: str) -> None:
    judge = assessor(CLOSED)
    found = commands(name, EFFECTS)
    asked = [each for each in found if judge.assess(each, WORKSPACE).verdict.kind != "allow"]
    assert len(asked) <= 0.02 * len(found), asked


def test_only_looking_is_told_from_having_an_effect() -> None:
    judge = assessor()
    for command in (
        "ls -la",
        "git status",
        "cat a | grep b",
        "find . -name '*.py' | wc -l",
        "ls > /dev/null",
    ):
        assert judge.assess(command, WORKSPACE).is_read_only, command
    for command in (
        "touch a",
        "ls > a",
        "make",
        "git add .",
        "find . -delete",
        "curl localhost",
        "$x",
        "if ((",
    ):
        assert not judge.assess(command, WORKSPACE).is_read_only, command
