"""Context files are found, bounded and read safely."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.knowledge.context.context_files import ContextFile, project_files, soul_file, unread


def texts(workspace: Path, limit: int = 1_000) -> list[str]:
    return [each.text for each in project_files(workspace, limit)]


def project_file(workspace: Path, limit: int) -> ContextFile | None:
    """The only project file there is."""
    found = project_files(workspace, limit)
    assert len(found) < 2
    return found[0] if found else None


def test_each_kind_of_file_counts_in_its_order(tmp_path: Path) -> None:
    (tmp_path / ".github").mkdir()
    kinds = ["HERMES.md", "AGENTS.md", "CLAUDE.md", ".cursorrules", ".github/copilot-instructions.md"]
    for name in reversed(kinds):
        (tmp_path / name).write_text(f"of {name}")
    assert texts(tmp_path) == [f"of {name}" for name in kinds]
    (tmp_path / ".hermes.md").write_text("the other name of the same kind")
    assert texts(tmp_path)[:2] == ["the other name of the same kind", "of AGENTS.md"]


def test_what_says_the_same_as_a_file_before_it_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "inner").mkdir()
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / "inner" / "AGENTS.md").write_text("Use tabs.\n")
    assert texts(tmp_path / "inner") == ["Use tabs."]


def test_folders_from_the_root_of_the_repository_down_are_merged_and_none_above(tmp_path: Path) -> None:
    inner = tmp_path / "repo" / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("outside")
    assert texts(inner) == []
    (tmp_path / "repo" / ".git").mkdir()
    assert texts(inner) == []
    (tmp_path / "repo" / "CLAUDE.md").write_text("root")
    (inner.parent / "AGENTS.md").write_text("between")
    (inner / "AGENTS.md").write_text("near")
    (inner / "HERMES.md").write_text("near and ours")
    assert texts(inner) == ["root", "between", "near and ours", "near"]


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
    (project / ".cursorrules").symlink_to(".cursorrules")
    (project / ".github").mkdir()
    (project / ".github" / "copilot-instructions.md").write_bytes(b"\x7fELF\0\0")
    assert project_file(project, 1_000) is None
    told = unread(tmp_path / "SOUL.md", project)
    reasons = ["a FIFO", "a folder", "leads out", "a link to itself", "not text"]
    assert len(told) == 5 and all(why in each for why, each in zip(reasons, told, strict=True))


def test_a_huge_file_is_read_in_part(tmp_path: Path) -> None:
    with (tmp_path / "AGENTS.md").open("wb") as file:
        file.write(b"Use tabs. " * 1_000)
        file.truncate(100_000_000)
    found = project_file(tmp_path, 1_000)
    assert found is not None and found.truncated and len(found.text) < 1_200
    assert unread(tmp_path / "SOUL.md", tmp_path) == []


@pytest.mark.parametrize("content", ["", "  \n\n"])
def test_an_empty_file_counts_as_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_text(content)
    assert soul_file(tmp_path / "SOUL.md", 1_000) is None
    assert soul_file(tmp_path / "nowhere.md", 1_000) is None


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


def test_imports_of_a_claude_file_are_followed_within_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "docs" / "deep").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / "CLAUDE.md").write_text(
        "# Rules\n@docs/style.md\nSee `@docs/quoted.md`.\n```\n@docs/fenced.md\n```\n@docs/style.md."
    )
    (project / "docs" / "style.md").write_text("violet rules\n@deep/more.md @../CLAUDE.md\n")
    (project / "docs" / "deep" / "more.md").write_text("amber rules\n")
    for name in ("quoted", "fenced"):
        (project / "docs" / f"{name}.md").write_text(f"never {name}")
    found = project_files(project, 1_000)
    assert [each.path.name for each in found] == ["CLAUDE.md", "style.md", "more.md"]
    assert "amber rules" in found[2].text
    assert unread(tmp_path / "SOUL.md", project) == []


def test_an_import_that_is_not_followed_is_named_with_its_line(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / ".git").mkdir()
    (tmp_path / "outside.md").write_text("outside")
    (project / ".env").write_text("TOKEN=hunter2")
    (project / "link.md").symlink_to(tmp_path / "outside.md")
    (project / "CLAUDE.md").write_text(
        "mail ana@example.org or @ana, @types/node\n@../outside.md\n@link.md\n@.env\n@docs/none.md\n"
    )
    assert [each.path.name for each in project_files(project, 1_000)] == ["CLAUDE.md"]
    told = unread(tmp_path / "SOUL.md", project)
    assert [each.split(":", 1)[1].split(" ", 1)[0] for each in told] == ["2", "3", "4", "5"]
    reasons = ["outside of the project", "outside of the project", "holds credentials", "no such file"]
    assert all(why in each for why, each in zip(reasons, told, strict=True))


@pytest.mark.thorough
def test_imports_end_at_a_depth_and_at_a_number(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.md").write_text(f"chain {number} @{number + 1}.md")
    (tmp_path / "CLAUDE.md").write_text("@0.md")
    assert [each.path.name for each in project_files(tmp_path, 1_000)][-1] == "4.md"
    assert "5 files deep" in unread(tmp_path / "SOUL.md", tmp_path)[0]
    for number in range(60):
        (tmp_path / f"w{number}.md").write_text(f"wide {number}")
    (tmp_path / "CLAUDE.md").write_text("\n".join(f"@w{number}.md" for number in range(60)))
    assert len(project_files(tmp_path, 1_000)) == 51
    assert "at most 50" in unread(tmp_path / "SOUL.md", tmp_path)[0]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_a_context_file_in_another_encoding_is_read_as_text(encoding: str, tmp_path: Path) -> None:
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    (tmp_path / "AGENTS.md").write_bytes(mark + "Größe in Zöllen.\r\nImmer.".encode(encoding))
    assert texts(tmp_path) == ["Größe in Zöllen.\nImmer."]
    assert unread(tmp_path / "SOUL.md", tmp_path) == []
