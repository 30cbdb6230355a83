"""Skills that a project brings are used only as they were trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.core.config.schema import Settings
from agent.core.home import Home
from agent.knowledge.skills.catalog import (
    NOT_TRUSTED,
    SkillCatalog,
    read_project_skills,
    skill_catalog,
    trust_skills,
)
from tests.support.skills import write_skill


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    (tmp_path / "person").mkdir()
    (tmp_path / "project" / ".git").mkdir(parents=True)
    return Home(tmp_path / "person" / ".hermes")


def catalog(home: Home, tmp_path: Path, **skills: object) -> SkillCatalog:
    settings = Settings.model_validate({"skills": skills})
    return skill_catalog(home, tmp_path / "project", settings)


def of_project(found: SkillCatalog) -> list[str]:
    return [each.name for each in found.load().skills if each.scope == "project"]


def trust(home: Home, tmp_path: Path) -> None:
    project = read_project_skills(home, tmp_path / "project")
    assert project is not None
    trust_skills(home, project)


@pytest.mark.parametrize("folder", [".hermes", ".agents", ".claude"])
def test_skills_of_a_project_wait_for_trust(home: Home, tmp_path: Path, folder: str) -> None:
    write_skill(tmp_path / "project" / folder / "skills", "deploy")
    before = catalog(home, tmp_path).load()
    assert NOT_TRUSTED in before.notes and before.get("deploy") is None
    trust(home, tmp_path)
    assert of_project(catalog(home, tmp_path)) == ["deploy"] and not catalog(home, tmp_path).load().notes


def change_byte(skill: Path) -> None:
    (skill / "scripts" / "run.sh").write_text("echo other")


def add_file(skill: Path) -> None:
    (skill / "notes.md").write_text("more")


def add_skill(skill: Path) -> None:
    write_skill(skill.parent, "another")


def remove_file(skill: Path) -> None:
    (skill / "scripts" / "run.sh").unlink()


def link_out(skill: Path) -> None:
    (skill / "out").symlink_to("/etc")


@pytest.mark.parametrize("change", [change_byte, add_file, add_skill, remove_file, link_out])
def test_any_change_ends_the_trust(home: Home, tmp_path: Path, change: object) -> None:
    skill = write_skill(tmp_path / "project" / ".claude" / "skills", "deploy")
    (skill / "scripts").mkdir()
    (skill / "scripts" / "run.sh").write_text("echo")
    trust(home, tmp_path)
    assert of_project(catalog(home, tmp_path)) == ["deploy"]
    change(skill)  # type: ignore[operator]
    assert of_project(catalog(home, tmp_path)) == []
    trust(home, tmp_path)
    assert "deploy" in of_project(catalog(home, tmp_path))


def test_skills_that_are_linked_from_one_folder_to_the_other_count_once(home: Home, tmp_path: Path) -> None:
    write_skill(tmp_path / "project" / ".agents" / "skills", "deploy")
    folder = tmp_path / "project" / ".claude" / "skills"
    folder.mkdir(parents=True)
    (folder / "deploy").symlink_to("../../.agents/skills/deploy")
    trust(home, tmp_path)
    found = catalog(home, tmp_path).load()
    assert of_project(catalog(home, tmp_path)) == ["deploy"] and not found.shadowed


def test_one_file_that_cannot_be_read_costs_that_skill_only(home: Home, tmp_path: Path) -> None:
    skills = tmp_path / "project" / ".claude" / "skills"
    write_skill(skills, "good")
    os.mkfifo(write_skill(skills, "odd") / "pipe")
    (skills / "binary").mkdir()
    (skills / "binary" / "SKILL.md").write_bytes(b"\0\xff\xfe" * 50)
    trust(home, tmp_path)
    found = catalog(home, tmp_path).load()
    assert {each.name for each in found.skills if each.scope == "project"} == {"good", "odd"}
    assert [each.reason for each in found.broken] == ["SKILL.md is not UTF-8 text"]


def test_more_than_is_read_before_each_session_is_not_used_and_told(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.knowledge.skills.catalog.MOST_FILES", 2)
    skill = write_skill(tmp_path / "project" / ".claude" / "skills", "deploy")
    for number in range(3):
        (skill / f"{number}.md").write_text("x")
    trust(home, tmp_path)
    found = catalog(home, tmp_path).load()
    assert of_project(catalog(home, tmp_path)) == [] and "more than 2 files" in found.notes[0]


def test_the_folders_of_the_person_are_not_those_of_a_project(home: Home, tmp_path: Path) -> None:
    write_skill(home.skills, "own")
    write_skill(tmp_path / "person" / ".agents" / "skills", "shared")
    settings = Settings()
    at_home = skill_catalog(home, tmp_path / "person", settings).load()
    assert {at_home.get("own").scope, at_home.get("shared").scope} == {"user"}  # type: ignore[union-attr]
    assert not at_home.notes


def test_a_skill_is_switched_off_by_name_system_or_doubt(home: Home, tmp_path: Path) -> None:
    write_skill(home.skills, "work/own")
    write_skill(home.skills, "other", "metadata:\n  platforms: windows\n")
    found = catalog(home, tmp_path, disabled=["own", "planning"]).load()
    assert {each.skill.name: each.reason for each in found.off} == {
        "own": "it is switched off in the settings",
        "planning": "it is switched off in the settings",
        "other": "it is for windows",
    }


def test_a_skill_of_ones_own_takes_the_place_of_a_bundled_one(home: Home, tmp_path: Path) -> None:
    write_skill(home.skills, "software/planning")
    found = catalog(home, tmp_path).load()
    assert found.get("planning").scope == "user"  # type: ignore[union-attr]
    assert [(each.name, each.scope) for each in found.shadowed] == [("planning", "bundled")]


def test_folders_named_in_the_settings_are_read_after_ones_own(home: Home, tmp_path: Path) -> None:
    write_skill(tmp_path / "team", "deploy")
    write_skill(home.skills, "deploy")
    write_skill(tmp_path / "team", "review-team")
    found = catalog(home, tmp_path, folders=[str(tmp_path / "team"), str(tmp_path / "gone")]).load()
    assert found.get("review-team") is not None
    assert found.get("deploy").folder == home.skills / "deploy"  # type: ignore[union-attr]
