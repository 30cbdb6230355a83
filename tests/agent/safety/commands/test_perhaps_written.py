"""Files that were perhaps written to: what stood there before is judged as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.commands.assessor import Assessor
from agent.safety.places import Places

WRITES = "cat > run.py <<'END'\nprint('new')\nEND\n"

PERHAPS = [
    f"if false; then\n{WRITES}fi",
    f"case x in y)\n{WRITES};; esac",
    f"for name in $(ls nothing); do\n{WRITES}done",
    f"while false; do\n{WRITES}done",
    f"write() {{\n{WRITES}}}",
    f"true && {WRITES}",
    "false || echo 'print(1)' > run.py",
    "if false; then echo 'print(1)' > run.py; else :; fi",
]


def kind(workspace: Path, command: str) -> str:
    home = workspace.parent
    assessor = Assessor(Places(home=str(home)), workspace, home / "scratch", confinement="open")
    return assessor.assess(command, workspace).kind


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "project"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("before", PERHAPS)
def test_what_a_branch_perhaps_overwrites_is_judged_as_well(workspace: Path, before: str) -> None:
    (workspace / "run.py").write_text("import shutil\nshutil.rmtree('src')\n", "utf-8")
    assert kind(workspace, f"{before}\npython run.py") == "ask"


def test_what_is_surely_overwritten_does_not_count_any_more(workspace: Path) -> None:
    (workspace / "run.py").write_text("import shutil\nshutil.rmtree('src')\n", "utf-8")
    assert kind(workspace, f"{WRITES}python run.py") == "allow"


def test_what_runs_only_after_the_write_does_not_see_what_was_before(workspace: Path) -> None:
    (workspace / "run.py").write_text("import shutil\nshutil.rmtree('src')\n", "utf-8")
    assert kind(workspace, f"if test -d src; then\n{WRITES}python run.py\nfi") == "allow"


def test_a_harmless_text_from_before_stops_nothing(workspace: Path) -> None:
    (workspace / "run.py").write_text("print('old')\n", "utf-8")
    assert kind(workspace, f"if test -d src; then\n{WRITES}fi\npython run.py") == "allow"


def test_where_nothing_was_before_only_the_new_text_counts(workspace: Path) -> None:
    assert kind(workspace, f"if test -d src; then\n{WRITES}fi\npython run.py") == "allow"


def test_a_shell_script_that_is_perhaps_overwritten_asks(workspace: Path) -> None:
    (workspace / "run.sh").write_text("rm -rf src\n", "utf-8")
    assert kind(workspace, "if false; then echo 'echo new' > run.sh; fi; sh run.sh") == "ask"


def test_a_document_behind_a_list_is_what_its_last_command_writes(workspace: Path) -> None:
    made = "mkdir -p src && cat > src/run.py <<'END'\n{}\nEND\npython src/run.py"
    assert kind(workspace, made.format("print('new')")) == "allow"
    assert kind(workspace, made.format("import shutil\nshutil.rmtree('src')")) == "ask"


def test_a_list_ends_in_the_pipe_of_its_last_command_alone(workspace: Path) -> None:
    assert kind(workspace, "echo rm -rf src > x.sh && echo done > y.txt; cat y.txt; sh x.sh") == "ask"
