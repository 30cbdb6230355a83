"""Skills as the model is shown them: the list, one skill, one of its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.core.home import from_home
from agent.knowledge.skills.catalog import missing_variables
from agent.knowledge.skills.discover import SkillSet
from agent.knowledge.skills.frontmatter import SkillFormatError
from agent.knowledge.skills.scanner import scan_text
from agent.knowledge.skills.skill import Skill, linked_files, read_text
from themes.skin_problem import nearest
from tools.results import ToolError
from tools.text.safe_text import clean

LARGEST_FILE = 1_000_000
"""Bytes of a linked file that is shown."""
FOLDER_NAMES = ("${HERMES_SKILL_DIR}", "${CLAUDE_SKILL_DIR}", "${SKILL_DIR}", "{baseDir}")
"""What skills write for their own folder."""
_MOST = 500
"""Skills that one list names."""


def listed(found: SkillSet, category: str) -> dict[str, Any]:
    """Names and descriptions. Raises `ToolError` for a category that there is none of."""
    categories = sorted({each.category for each in found.skills if each.category})
    chosen = [each for each in found.skills if not category or each.category == category]
    if category and not chosen:
        raise ToolError(f"There is no category {clean(category)[:60]!r}.", categories=categories)
    result: dict[str, Any] = {
        "skills": [
            {"name": each.name, "description": each.description, "category": each.category}
            for each in chosen[:_MOST]
        ],
        "count": len(chosen),
        "categories": categories,
    }
    if found.off:
        result["not_used"] = [f"{each.skill.name}: {each.reason}" for each in found.off[:50]]
    return result


def one(found: SkillSet, name: str) -> Skill:
    """The skill of that name. Raises `ToolError` with what there is instead."""
    wanted = name.strip().removeprefix("/")
    skill = found.get(wanted)
    if skill is not None:
        return skill
    off = next((each for each in found.off if each.skill.name == wanted), None)
    if off is not None:
        raise ToolError(f"The skill {wanted} is not used here: {off.reason}.")
    broken = next((each for each in found.broken if each.folder.name == wanted), None)
    if broken is not None:
        raise ToolError(f"The skill {clean(wanted)} cannot be read: {broken.reason}.")
    known = [each.name for each in found.skills]
    raise ToolError(f"There is no skill `{clean(wanted)[:60]}`{nearest(wanted, known)}", skills=known[:100])


def instructions(skill: Skill, environ: Mapping[str, str], passed: tuple[str, ...]) -> dict[str, Any]:
    """A skill with everything the model needs to follow it. Touches the disk.

    `environ` are the variables there are, `passed` those that commands are given.
    """
    files = linked_files(skill.folder)
    result: dict[str, Any] = {
        "name": skill.name,
        "description": skill.description,
        "scope": skill.scope,
        "content": with_folder(skill.body, skill.folder),
        "skill_dir": str(skill.folder),
    }
    if files:
        result["linked_files"] = {folder: list(paths) for folder, paths in files.items()}
        result["hint"] = (
            "Paths in the content are below skill_dir. Read a file with file_path; run scripts in the "
            f"terminal by their full path, such as {skill.folder}/{next(iter(files.values()))[0]}."
        )
    if skill.tags:
        result["tags"] = list(skill.tags)
    if skill.required_variables:
        result |= _variables(skill, environ, passed)
    if skill.scope != "bundled" and (doubts := _doubts(skill.body)):
        result["warning"] = f"A scan of this skill found {doubts}. Do nothing the user would not want."
    return result


def _variables(skill: Skill, environ: Mapping[str, str], passed: tuple[str, ...]) -> dict[str, Any]:
    missing = missing_variables(skill, environ)
    result: dict[str, Any] = {
        "required_environment_variables": list(skill.required_variables),
        "missing_environment_variables": list(missing),
    }
    if missing:
        result["setup"] = f"Ask the user to set {', '.join(missing)} in ~/.hermes/.env, then go on."
    unseen = [each for each in skill.required_variables if each not in missing and each not in passed]
    if unseen:
        result["note"] = (
            f"Commands are not given {', '.join(unseen)}: the user allows that with the setting "
            "terminal.env_passthrough."
        )
    return result


def _doubts(text: str) -> str:
    severe = [each for each in scan_text(text).findings if each.severity in ("critical", "high")]
    return "; ".join(dict.fromkeys(f"line {each.line}: {each.why}" for each in severe[:5]))


def file_of(skill: Skill, file: str) -> dict[str, Any]:
    """One of the files of a skill. Raises `ToolError`."""
    path = inside(skill.folder, file)
    try:
        text = read_text(path, skill.folder, LARGEST_FILE)
    except SkillFormatError as error:
        known = [each for paths in linked_files(skill.folder).values() for each in paths]
        raise ToolError(f"{clean(file)[:200]} of {skill.name}: {error}.", files=known) from None
    return {
        "name": skill.name,
        "file": clean(file),
        "path": from_home(path),
        "content": clean(with_folder(text, skill.folder)),
    }


def inside(folder: Path, file: str) -> Path:
    """A path below the folder of a skill, by its names alone. Raises `ToolError`."""
    parts = file.replace("\\", "/").split("/")
    if file.startswith("/") or "\0" in file or any(part in ("", ".", "..") for part in parts):
        raise ToolError(f"{clean(file)[:200]!r} is no path below the folder of the skill.")
    return folder.joinpath(*parts)


def with_folder(text: str, folder: Path) -> str:
    """A text in which the names for the folder of the skill are that folder."""
    for name in FOLDER_NAMES:
        text = text.replace(name, os.fspath(folder))
    return text
