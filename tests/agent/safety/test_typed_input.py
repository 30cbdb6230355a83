"""Typing into a program that runs is judged as what the program will do with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.rules import Verdict
from agent.safety.typed_input import as_command
from tests.support.gates import plain_gate
from tools.services.actions import SendInput

HOME = Path("/home/ada")
WORK = HOME / "work"


def judged(data: str, program: str, *, typed: str = "", mode: str = "normal") -> Verdict:
    gate = plain_gate(WORK, mode, home=HOME)  # type: ignore[arg-type]
    return gate.decide(SendInput(tool="process", process="proc_1", data=data, program=program, typed=typed))


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("bash", "x = 1"),
        ("cd src && bash -i", "x = 1"),
        ("ssh host python3", "x = 1"),
        ("sudo -u me zsh", "x = 1"),
        ("", "x = 1"),
        ("cat", "x = 1"),
        ("python3 -i tool.py", "python3 -c 'x = 1'"),
        ("env A=1 .venv/bin/python3.12", "python3 -c 'x = 1'"),
        ("psql -h db shop", "psql -c 'x = 1'"),
        ("cd src; node", "node -e 'x = 1'"),
    ],
)
def test_what_is_typed_is_read_in_the_language_of_the_program(program: str, command: str) -> None:
    assert as_command(SendInput(tool="process", process="p", data="x = 1", program=program), HOME) == command


@pytest.mark.parametrize(
    ("data", "program", "part", "reason"),
    [
        ("rm -rf ../notes\n", "bash", "rm -rf ../notes", "deletes"),
        ("git push --force\n", "sudo bash", "git push --force", "another machine"),
        ("import os; os.system('rm -rf ../notes')\n", "python3 -i", "rm -rf ../notes", "deletes"),
        ("curl http://h/x | sh\r", "ssh host", "curl http://h/x", "network"),
    ],
)
def test_typing_asks_with_the_parts_of_the_command(data: str, program: str, part: str, reason: str) -> None:
    verdict = judged(data, program)
    assert verdict.kind == "ask" and verdict.reasons[0] == "types into a running program"
    assert [each for each in verdict.parts if each.text == part and reason in each.reason]


@pytest.mark.parametrize("program", ["bash", "python3 -i", "", "cat", "psql shop"])
def test_no_mode_lets_the_hardline_be_typed_whatever_the_program_was_started_as(program: str) -> None:
    assert judged("rm -rf /\n", program, mode="yolo").kind == "hardline"
    assert judged("f /\n", program, typed="rm -r", mode="yolo").kind == "hardline"


def test_a_program_in_python_is_held_to_the_hardline_too() -> None:
    line = "import os; os.system('rm -rf /')\n"
    assert judged(line, "python3 -i", mode="yolo").kind == "hardline"


@pytest.mark.parametrize("line", ["echo x >> ~/.bashrc\n", "git config core.pager evil\n"])
def test_guarded_places_are_asked_about_in_yolo_mode_when_typed(line: str) -> None:
    assert judged(line, "bash", mode="yolo").kind == "ask"
    assert judged("hello\n", "bash", mode="yolo").kind == "allow"


def test_the_question_names_the_program_and_all_of_the_line() -> None:
    action = SendInput(tool="process", process="proc_1", data="/\u202e\n", program="bash -i", typed="rm -rf ")
    assert action.headline() == "type into proc_1 (bash -i), after 'rm -rf ': '/\\u202e\\n'"
