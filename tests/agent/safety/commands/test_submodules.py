from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.commands.assessor import Assessor
from agent.safety.places import Places

UPDATE = "git submodule update --init --recursive"


def verdict(workspace: Path, command: str, listed: str = "") -> str:
    if listed:
        text = f'[submodule "lib"]\n\tpath = lib\n\turl = {listed}\n'
        (workspace / ".gitmodules").write_text(text, "utf-8")
    places = Places(home=str(workspace.parent), guarded=(), secret=())
    return Assessor(places, workspace, confinement="open").assess(command, workspace).kind


@pytest.mark.parametrize(
    "address", ["https://github.com/a/lib.git", "https://gitlab.com/a/lib", "../lib.git"]
)
def test_submodules_of_public_forges_and_beside_the_project_are_fetched_unasked(
    tmp_path: Path, address: str
) -> None:
    assert verdict(tmp_path, UPDATE, address) == "allow"


@pytest.mark.parametrize(
    "address",
    [
        "https://example.com/a/lib.git",
        "git@github.com:a/lib.git",
        "ext::sh -c id",
        "file:///srv/lib",
        "/srv/lib",
        "https://github.com/a/lib.git\n\tupdate = !id",
        "https://github.com/a/lib.git\n\turl = https://example.com/b",
    ],
)
def test_other_addresses_ask(tmp_path: Path, address: str) -> None:
    assert verdict(tmp_path, UPDATE, address) == "ask"


def test_without_a_list_there_is_nothing_to_fetch(tmp_path: Path) -> None:
    assert verdict(tmp_path, UPDATE) == "allow"


def test_a_list_that_the_same_command_changes_asks(tmp_path: Path) -> None:
    command = f"sed -i s/lib/evil/ .gitmodules && {UPDATE}"
    assert verdict(tmp_path, command, "https://github.com/a/lib.git") == "ask"


def test_building_what_was_just_fetched_asks(tmp_path: Path) -> None:
    assert verdict(tmp_path, f"{UPDATE} && make", "https://github.com/a/lib.git") == "ask"
