"""Which skills are found, and which of two wins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.knowledge.skills.catalog import SkillIndex, SkillRoot, SkillSet, roots
from agent.knowledge.skills.skill import for_platform, linked_files


def write(root: Path, place: str, head: str = "", body: str = "Do it.") -> Path:
    folder = root / place
    folder.mkdir(parents=True)
    head = head or f"name: {folder.name}\ndescription: About {folder.name}.\n"
    (folder / "SKILL.md").write_text(f"---\n{head}---\n{body}\n")
    return folder


def found(*places: SkillRoot) -> SkillSet:
    return SkillIndex().find(places)


def test_skills_lie_directly_or_in_categories(tmp_path: Path) -> None:
    write(tmp_path, "plain")
    write(tmp_path, "ops/deploy")
    write(tmp_path, "ops/cloud/scale")
    write(tmp_path, "too/deep/down/there")
    names = {each.name: each.category for each in found(SkillRoot(tmp_path, "user")).skills}
    assert names == {"plain": "", "deploy": "ops", "scale": "ops/cloud"}


def test_the_nearest_of_one_name_wins_and_the_others_are_listed(tmp_path: Path) -> None:
    for place in ("project", "user", "bundled"):
        write(tmp_path / place, "demo", f"name: demo\ndescription: From {place}.\n")
    skills = found(
        SkillRoot(tmp_path / "project", "project"),
        SkillRoot(tmp_path / "user", "user"),
        SkillRoot(tmp_path / "bundled", "bundled"),
    )
    [winner] = skills.skills
    assert winner.description == "From project."
    assert [each.scope for each in skills.shadowed] == ["user", "bundled"]


def test_a_project_that_is_not_trusted_gives_no_skills(tmp_path: Path) -> None:
    places = roots(tmp_path / "home", tmp_path, None, tmp_path / "bundled")
    assert [root.scope for root in places] == ["user", "user", "bundled"]
    trusted = roots(tmp_path / "home", tmp_path, tmp_path / "project", tmp_path / "bundled")
    assert [root.path.relative_to(tmp_path).as_posix() for root in trusted[:3]] == [
        "project/.hermes/skills",
        "project/.agents/skills",
        "project/.claude/skills",
    ]


def test_a_broken_skill_costs_one_line_and_the_rest_works(tmp_path: Path) -> None:
    write(tmp_path, "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "SKILL.md").write_text("no head")
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "SKILL.md").write_bytes(b"---\xff\xfe")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    skills = found(SkillRoot(tmp_path, "user"))
    assert [each.name for each in skills.skills] == ["good"]
    assert {each.folder.name for each in skills.broken} == {"bad", "binary", "pipe"}
    assert all("\n" not in each.reason for each in skills.broken)


def test_links_that_lead_out_are_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", "outside")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "outside").symlink_to(tmp_path / "elsewhere" / "outside")
    inside = write(tmp_path / "root", "inside")
    (inside / "references").mkdir()
    (inside / "references" / "secret.md").symlink_to("/etc/hostname")
    (inside / "references" / "notes.md").write_text("x")
    skills = found(SkillRoot(tmp_path / "root", "user"))
    assert [each.name for each in skills.skills] == ["inside"]
    assert linked_files(inside) == {"references": ("references/notes.md",)}


def test_a_link_to_itself_hides_no_other_skill(tmp_path: Path) -> None:
    write(tmp_path, "good")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "self").symlink_to(".")
    assert [each.name for each in found(SkillRoot(tmp_path, "user")).skills] == ["good"]


def test_a_changed_skill_is_read_again_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    folder = write(tmp_path, "demo")
    index = SkillIndex()
    [first] = index.find([SkillRoot(tmp_path, "user")]).skills
    [again] = index.find([SkillRoot(tmp_path, "user")]).skills
    assert again is first
    (folder / "SKILL.md").write_text("---\nname: demo\ndescription: Something else.\n---\nx\n")
    [changed] = index.find([SkillRoot(tmp_path, "user")]).skills
    assert changed.description == "Something else."


@pytest.mark.parametrize(
    ("head", "tools", "variables", "platforms"),
    [
        ("allowed-tools: Bash(git add:*) Read\n", ("Bash(git add:*)", "Read"), (), ()),
        ("allowed-tools:\n  - terminal\n", ("terminal",), (), ()),
        ("allowed-tools: ''\n", None, (), ()),
        ("metadata:\n  platforms: macos, linux\n", None, (), ("macos", "linux")),
        ("platforms: [macos]\n", None, (), ("macos",)),
        ("metadata:\n  required_environment_variables: A_KEY B_KEY\n", None, ("A_KEY", "B_KEY"), ()),
        (
            "required_environment_variables:\n  - name: A_KEY\n    prompt: x\n  - B_KEY\n  - 'rm -rf'\n",
            None,
            ("A_KEY", "B_KEY"),
            (),
        ),
    ],
)
def test_what_a_skill_needs_is_read_from_both_places(
    tmp_path: Path,
    head: str,
    tools: tuple[str, ...] | None,
    variables: tuple[str, ...],
    platforms: tuple[str, ...],
) -> None:
    write(tmp_path, "demo", f"name: demo\ndescription: x\n{head}")
    [skill] = found(SkillRoot(tmp_path, "user")).skills
    assert (skill.allowed_tools, skill.required_variables, skill.platforms) == (tools, variables, platforms)


def test_a_skill_for_another_system_is_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "demo", "name: demo\ndescription: x\nmetadata:\n  platforms: macos\n")
    [skill] = found(SkillRoot(tmp_path, "user")).skills
    assert for_platform(skill, "darwin") and not for_platform(skill, "linux")
