"""Context files are found, bounded and read safely."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.context.context_files import project_file, soul_file


def test_the_first_name_wins_and_only_that_is_read(tmp_path: Path) -> None:
    for name in ("CLAUDE.md", "AGENTS.md"):
        (tmp_path / name).write_text(name)
    found = project_file(tmp_path, 1_000)
    assert found is not None
    assert (found.name, found.text, found.truncated) == ("AGENTS.md", "AGENTS.md", False)
    (tmp_path / "HERMES.md").write_text("ours")
    found = project_file(tmp_path, 1_000)
    assert found is not None
    assert found.name == "HERMES.md"


def test_folders_up_to_the_root_of_the_repository_are_searched_and_no_further(tmp_path: Path) -> None:
    inner = tmp_path / "repo" / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("outside")
    assert project_file(inner, 1_000) is None
    (tmp_path / "repo" / ".git").mkdir()
    assert project_file(inner, 1_000) is None
    (tmp_path / "repo" / "CLAUDE.md").write_text("root")
    found = project_file(inner, 1_000)
    assert found is not None
    assert found.text == "root"


def test_a_long_file_keeps_head_and_tail_and_names_the_whole(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("BEGIN " + "x" * 5_000 + " END")
    found = project_file(tmp_path, 1_000)
    assert found is not None
    assert found.truncated
    assert found.text.startswith("BEGIN")
    assert found.text.endswith("END")
    assert str(tmp_path / "AGENTS.md") in found.text
    assert len(found.text) < 1_200


def test_control_and_hidden_characters_are_removed(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\xef\xbb\xbfa\x1b[2Jb\xe2\x80\xaec \xff")
    found = project_file(tmp_path, 1_000)
    assert found is not None
    assert found.text == "abc \ufffd"


def test_pipes_folders_and_links_out_of_the_project_are_not_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    os.mkfifo(project / "HERMES.md")
    (project / "AGENTS.md").mkdir()
    (tmp_path / "secret").write_text("secret")
    (project / "CLAUDE.md").symlink_to(tmp_path / "secret")
    assert project_file(project, 1_000) is None


@pytest.mark.parametrize("content", ["", "  \n\n"])
def test_an_empty_file_counts_as_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_text(content)
    assert soul_file(tmp_path / "SOUL.md", 1_000) is None
    assert soul_file(tmp_path / "nowhere.md", 1_000) is None


def test_our_own_kind_of_file_counts_more_than_a_nearer_one_of_another(tmp_path: Path) -> None:
    inner = tmp_path / "package"
    inner.mkdir()
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    (inner / "AGENTS.md").write_text("near")
    (tmp_path / ".hermes.md").write_text("ours")
    found = project_file(inner, 1_000)
    assert found is not None
    assert (found.name, found.text) == (".hermes.md", "ours")
    (inner / "HERMES.md").write_text("ours and near")
    found = project_file(inner, 1_000)
    assert found is not None
    assert found.text == "ours and near"


def test_a_link_inside_the_project_is_followed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "agents.md").write_text("linked")
    (tmp_path / "AGENTS.md").symlink_to("docs/agents.md")
    (tmp_path / "HERMES.md").symlink_to("HERMES.md")
    found = project_file(tmp_path, 1_000)
    assert found is not None
    assert found.text == "linked"


def test_devices_are_never_opened(tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").symlink_to("/dev/zero")
    assert soul_file(tmp_path / "SOUL.md", 1_000) is None


def test_a_limit_of_nothing_switches_context_files_off(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("x")
    assert project_file(tmp_path, 0) is None
