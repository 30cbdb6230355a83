"""The package that is built holds every file the program needs at run time."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parent.parent
SHIPPED = ("app", "agent", "tools", "widgets", "themes", "hermes_launcher.py")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a freshly built wheel with their content."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist()}


def _recorded() -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *SHIPPED], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


def test_every_recorded_file_of_the_packages_is_in_it(built: dict[str, bytes]):
    assert sorted(_recorded() - built.keys()) == []


@pytest.mark.parametrize(
    "name",
    [
        "agent/model/catalog.json",
        "agent/safety/sandbox/nothing",
        "themes/personalities.yaml",
        "tools/code/child/hermes_child/__init__.py",
        "tools/terminal/prologue.bash",
        "tools/terminal/prologue.sh",
    ],
)
def test_a_file_that_is_read_at_run_time_is_in_it_as_it_is(built: dict[str, bytes], name: str):
    assert built[name] == (ROOT / name).read_bytes()


def test_each_package_says_that_it_is_typed(built: dict[str, bytes]):
    packages = {PurePosixPath(name).parts[0] for name in built if name.endswith("/__init__.py")}
    assert packages and {f"{package}/py.typed" for package in packages} <= built.keys()


def test_its_metadata_says_what_it_is(built: dict[str, bytes]):
    said = next(content for name, content in built.items() if name.endswith(".dist-info/METADATA"))
    message = email.message_from_bytes(said)
    for field in ("Name", "Version", "Summary", "Author", "License-Expression", "Keywords"):
        assert message[field], field
    assert "Typing :: Typed" in message.get_all("Classifier", [])
    assert (message["License-File"], message["Description-Content-Type"]) == ("LICENSE", "text/markdown")


def test_nothing_else_is_in_it(built: dict[str, bytes]):
    tops = {PurePosixPath(name).parts[0] for name in built}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(SHIPPED)
    assert not [name for name in built if "__pycache__" in name or name.endswith(".pyc")]
