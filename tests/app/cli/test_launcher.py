"""The search path of the program is its own, and its start is not searched for garbage."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

import hermes_launcher
from hermes_launcher import own_home, own_program_path, own_search_path

OWN = str(Path(hermes_launcher.__file__).parent)


def test_the_current_folder_and_pythonpath_leave_the_search_path(tmp_path: Path) -> None:
    project, library = tmp_path / "project", tmp_path / "library"
    path = ["", str(project), str(library), "/usr/lib/python3"]
    assert own_search_path(path, {"PYTHONPATH": str(library)}, str(project)) == ["/usr/lib/python3"]


def test_a_link_to_the_current_folder_leaves_too(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert own_search_path([str(tmp_path / "link")], {}, str(tmp_path / "real")) == []


def test_our_own_folder_stays_even_as_the_current_one() -> None:
    assert own_search_path([OWN, "x"], {"PYTHONPATH": OWN}, OWN) == [OWN, "x"]


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("/usr/bin:/bin", "/usr/bin:/bin"),
        (".:/usr/bin", "/usr/bin"),
        ("/usr/bin:", "/usr/bin"),
        (":/usr/bin::/bin:..", "/usr/bin:/bin"),
        ("node_modules/.bin:/bin", "/bin"),
        ("./x:../y:z", ""),
        ("~/bin:/bin", "/home/me/bin:/bin"),
        ("~nobody-of-that-name/bin:/bin", "/bin"),
        ("", ""),
    ],
)
def test_folders_that_depend_on_where_one_stands_leave_the_path_of_programs(
    monkeypatch: pytest.MonkeyPatch, path: str, own: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert own_program_path(path) == own


def test_a_project_lends_us_no_program_where_the_path_names_the_current_folder(tmp_path: Path) -> None:
    planted = tmp_path / "uname"
    planted.write_text("#!/bin/sh\n: > ran\n")
    planted.chmod(0o755)
    run = "from hermes_launcher import main; sys.argv[1:] = ['--version']; code = main()"
    ask = "import platform; platform.platform(); import os; print(os.environ['PATH']); sys.exit(code)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {OWN!r}); {run}; {ask}"],
        env={"PATH": ".:/usr/bin:/bin:", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "/usr/bin:/bin"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("home", [None, "", "rel", "./x", "~"])
def test_a_home_that_is_no_full_path_is_that_of_the_user(
    monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    if home is None:
        monkeypatch.delenv("HOME", raising=False)
    else:
        monkeypatch.setenv("HOME", home)
    own_home(os.environ)
    assert os.environ["HOME"] == str(Path.home()) == pwd.getpwuid(os.getuid()).pw_dir


def test_a_home_that_is_a_full_path_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nowhere/of mine/")
    own_home(os.environ)
    assert os.environ["HOME"] == "/nowhere/of mine/"


def printed(program: str) -> str:
    return subprocess.check_output([sys.executable, "-c", program], cwd=OWN, text=True)


def test_what_a_start_creates_is_never_searched_for_garbage_and_later_garbage_is() -> None:
    program = """
import gc, hermes_launcher as launcher
before = gc.get_stats()[0]["collections"]
own = gc.get_freeze_count()  # Python 3.12 begins with some.
class Node:
    freed = 0
    def __init__(self): self.itself = self
    def __del__(self): Node.freed += 1
launcher.search_garbage_after_start()
start = [[] for _ in range(100_000)]
print(gc.get_freeze_count() - own, gc.get_stats()[0]["collections"] - before)
more = [[] for _ in range(launcher.START[0])]
print(gc.get_freeze_count() > 100_000, gc.get_threshold() == launcher.GARBAGE)
for _ in range(2 * launcher.GARBAGE[0]): Node()
print(Node.freed >= launcher.GARBAGE[0])
"""
    assert printed(program).split("\n") == ["0 0", "True True", "True", ""]


def test_the_thresholds_of_the_full_screen_stay() -> None:
    program = """
import gc, hermes_launcher as launcher
own = gc.get_freeze_count()
launcher.search_garbage_after_start()
gc.set_threshold(2_000, 2, 1_000_000)
more = [[] for _ in range(10_000)]
print(gc.get_threshold(), gc.get_freeze_count() - own)
"""
    assert printed(program) == "(2000, 2, 1000000) 0\n"
