"""Scripts of the project are read before they are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.commands.assessor import Assessor
from agent.safety.places import Places


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "project"
    folder.mkdir(parents=True)
    return folder


def verdict(project: Path, command: str) -> str:
    judge = Assessor(Places(home=str(project.parent)), project)
    return judge.assess(command, project).kind


def write(project: Path, name: str, text: str) -> None:
    (project / name).write_text(text, "utf-8")


def test_a_script_that_only_builds_and_looks_runs_unasked(project: Path) -> None:
    write(project, "check.sh", "#!/usr/bin/env bash\nset -e\npytest -q\nruff check .\n")
    for command in ("./check.sh", "bash check.sh", "sh -e ./check.sh"):
        assert verdict(project, command) == "allow"


def test_a_script_that_destroys_asks(project: Path) -> None:
    write(project, "gone.sh", "#!/bin/sh\nrm -rf src\n")
    assert verdict(project, "./gone.sh") == "ask"
    assert verdict(project, "sh gone.sh") == "ask"


def test_a_script_that_wipes_the_machine_is_refused(project: Path) -> None:
    write(project, "wipe.sh", "#!/bin/sh\nrm -rf /usr\n")
    assert verdict(project, "./wipe.sh") == "hardline"


def test_what_a_script_does_with_its_arguments_counts(project: Path) -> None:
    write(project, "each.sh", '#!/bin/sh\nrm -rf "$1"\n')
    assert verdict(project, "./each.sh build") == "allow"
    assert verdict(project, "./each.sh src") == "ask"
    assert verdict(project, "./each.sh $(ls)") == "ask"


def test_a_script_that_the_same_command_writes_or_changes_asks(project: Path) -> None:
    write(project, "check.sh", "#!/bin/sh\npytest\n")
    assert verdict(project, "cp other check.sh && ./check.sh") == "ask"
    assert verdict(project, "git checkout topic && ./check.sh") == "ask"
    assert verdict(project, "chmod +x check.sh && ./check.sh") == "allow"
    assert verdict(project, "curl -o check.sh localhost:8000 && sh check.sh") == "ask"


def test_a_script_behind_another_script_asks_because_it_may_have_been_changed(project: Path) -> None:
    write(project, "check.sh", "#!/bin/sh\npytest\n")
    write(project, "change.sh", "#!/bin/sh\nsed -i 's/pytest/ls/' check.sh\n")
    assert verdict(project, "sh change.sh && sh check.sh") == "ask"
    assert verdict(project, "./change.sh; ./check.sh") == "ask"


def test_programs_that_are_no_shell_scripts_ask(project: Path) -> None:
    write(project, "tool", "#!/usr/bin/env python3\nprint(1)\n")
    write(project, "odd.sh", "pytest\n")
    assert verdict(project, "./tool") == "ask"
    assert verdict(project, "./odd.sh") == "ask"
    assert verdict(project, "./missing.sh") == "ask"


def test_scripts_that_start_each_other_are_read_up_to_a_depth(project: Path) -> None:
    write(project, "a.sh", "#!/bin/sh\n./b.sh\n")
    write(project, "b.sh", "#!/bin/sh\nls\n")
    assert verdict(project, "./a.sh") == "allow"
    write(project, "b.sh", "#!/bin/sh\n./a.sh\n")
    assert verdict(project, "./a.sh") == "ask"
