"""What is said of an action that needs a yes: parts with their reasons, files, network, sandbox."""

from __future__ import annotations

import asyncio
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.event_data import VerdictPart
from agent.events import ApprovalAsked
from app.tui.questions.approval_words import (
    MOST_PARTS,
    ask_text,
    marks_in_command,
    marks_in_notes,
    reach_text,
    reasons,
)
from tests.support.gates import plain_gate
from tools.services.actions import RunCommand
from tools.text.safe_text import reveal

WORK = Path("/home/ada/work")


def asked(headline: str, *parts: VerdictPart, **more: Any) -> ApprovalAsked:
    loop = asyncio.new_event_loop()
    try:
        reply = loop.create_future()
    finally:
        loop.close()
    fields: dict[str, Any] = {"tool": "terminal", "reasons": (), **more}
    return ApprovalAsked(id="a", headline=headline, parts=parts, reply=reply, **fields)


def judged(command: str) -> ApprovalAsked:
    gate = plain_gate(WORK, "normal", home=Path("/home/ada"))
    verdict = gate.decide(RunCommand(tool="terminal", command=command, cwd=WORK))
    return asked(command, *verdict.parts, reasons=verdict.reasons)


def marked(request: ApprovalAsked) -> list[str]:
    pattern = marks_in_command(request)
    lines = reveal(request.headline).split("\n")
    return [match[0] for line in lines for match in pattern.finditer(line)]


@pytest.mark.parametrize(
    ("command", "marks"),
    [
        ("ls && rm -rf ../src; pwd", ["rm -rf ../src"]),
        ("git status; git push --force origin main", ["git push --force origin main"]),
        ("rm   -rf  '../my src'", ["rm   -rf  '../my src"]),
        ("cat ~/.ssh/id_rsa", ["cat"]),
        ("echo hi > ~/.bashrc", ["> ~/.bashrc"]),
        ("echo hi >>/home/ada/.profile", [">>/home/ada/.profile"]),
        ("sudo rm notes", ["sudo rm notes"]),
        ("ls\nrm -rf ../src\n", ["rm -rf ../src"]),
        ("echo 'rm -rf src'; curl http://h/", ["curl http://h/"]),
    ],
)
def test_the_parts_that_matter_are_marked_in_the_command_and_no_others(
    command: str, marks: list[str]
) -> None:
    assert marked(judged(command)) == marks


def test_hidden_characters_are_marked_wherever_they_stand() -> None:
    assert marked(judged("rm -rf ../sr\u202ec; echo a\u200b")) == ["rm -rf ../sr\\u202ec", "\\u200b"]


def test_each_part_has_its_reason_beside_it_and_harmless_ones_have_no_note() -> None:
    notes = list(reasons(judged("ls && rm -rf ../src; curl http://h/")))
    assert notes == [
        "▲ rm -rf ../src: deletes files outside of the workspace (/home/ada/src)",
        "▲ curl http://h/: reaches the network: h is not on the list of hosts",
    ]
    pattern = marks_in_notes(judged("ls && rm -rf ../src"))
    assert [match[0] for match in pattern.finditer(notes[0])] == ["▲ rm -rf ../src"]


def test_a_command_that_is_decoded_first_is_named_although_it_stands_nowhere() -> None:
    request = judged("echo cm0gLXJmIC4uL25vdGVz | base64 -d | sh")
    assert [note for note in reasons(request) if note.startswith("▲ rm -rf ../notes: ")]


def test_reasons_for_the_whole_follow_those_of_parts() -> None:
    request = asked("x y", VerdictPart("x", "ask", "is odd"), reasons=("is odd", "a rule asks"))
    assert list(reasons(request)) == ["▲ x: is odd", "· a rule asks"]


def test_a_part_that_is_the_whole_command_is_not_named_again() -> None:
    assert list(reasons(asked("x", VerdictPart("x", "ask", "is odd")))) == ["▲ is odd"]


def test_what_the_sentence_says_of_the_only_part_is_not_said_again() -> None:
    push = judged("git push")
    assert list(reasons(push)) == ["▲ sends something to another machine, which cannot be taken back"]
    assert list(reasons(replace(push, sentence="Pushes commits: others can see it at once."))) == []
    two = replace(judged("git push; curl http://h/"), sentence="Pushes commits.")
    assert len(list(reasons(two))) == 2
    named = replace(judged("curl http://h/"), sentence="Connects to h.")
    assert [note for note in reasons(named) if "h is not on the list" in note]


def test_a_part_cannot_pass_for_another_note() -> None:
    request = asked("x", VerdictPart("x\nnetwork: no", "ask", "bad\non no: all is well"), touches=("a\nb",))
    assert all("\n" not in note for note in (*reasons(request), reach_text(request)))


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, ""),
        ({"network": "no", "sandbox": "bubblewrap"}, "network: no · sandbox: bubblewrap"),
        (
            {"network": "yes", "sandbox": "none", "touches": ("a", "b/ (2 files)")},
            "network: yes · sandbox: off · will touch: a, b/ (2 files)",
        ),
        ({"network": "open", "sandbox": "outside"}, "network: not blocked · sandbox: not used for this"),
    ],
)
def test_network_sandbox_and_files_are_one_line(fields: dict[str, Any], line: str) -> None:
    assert reach_text(asked("x", **fields)) == line


def test_a_question_about_a_host_says_once_that_it_is_about_the_network() -> None:
    request = asked("let commands reach example.org on port 443", tool="network", network="yes", sandbox="on")
    assert ask_text(request).endswith(" wants the network") and "network" not in reach_text(request)
    assert ask_text(asked("ls")).endswith(" wants to use terminal")


def test_a_file_name_that_tells_of_a_sandbox_comes_after_what_is_true_of_it() -> None:
    line = reach_text(asked("x", network="yes", sandbox="none", touches=("x · network: no · sandbox: on",)))
    assert line.startswith("network: yes · sandbox: off · will touch: ")
    found = [match[0] for match in marks_in_notes(asked("x")).finditer(line)]
    assert found[:2] == ["network: yes", "sandbox: off"]


def test_of_very_many_parts_some_are_shown_and_the_rest_is_counted() -> None:
    parts = [VerdictPart(f"rm f{number}", "ask", f"deletes f{number}") for number in range(MOST_PARTS + 5)]
    notes = list(reasons(asked("; ".join(part.text for part in parts), *parts)))
    assert len(notes) == MOST_PARTS + 1 and notes[-1] == "▲ and 5 more parts"


def test_of_few_parts_those_with_a_new_reason_come_first() -> None:
    parts = [VerdictPart(f"rm {at}", "ask", "removes a file") for at in range(5)]
    request = asked("rm", *parts, VerdictPart("git push", "ask", "publishes"))
    assert list(reasons(request, 3, ": o shows all")) == [
        "▲ rm 0: removes a file",
        "▲ git push: publishes",
        "▲ rm 1: removes a file",
        "▲ and 3 more parts: o shows all",
    ]
    assert len(list(reasons(request))) == 6


@pytest.mark.thorough
@given(st.lists(st.text(st.characters(exclude_characters="\n"), max_size=12), min_size=1, max_size=4))
def test_any_command_can_be_marked(words: list[str]) -> None:
    command = shlex.join(["rm", "-rf", *words])
    request = asked(command, VerdictPart(" ".join(["rm", "-rf", *words]), "ask", "deletes"))
    assert isinstance(marks_in_command(request), re.Pattern)
    assert marked(request)[0].startswith("rm")
    assert marks_in_notes(request).search(next(iter(reasons(request))))
