"""The tools by which the agent lists and reads skills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, error_text
from tools.services.skill_keeper import SkillKeeper
from tools.text.safe_text import clean
from tools.text.words import plural


async def skills_list(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Return names and descriptions of the usable skills."""
    return dict(await context.service(SkillKeeper).list(str(arguments.get("category") or "")))


async def skill_view(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Return the instructions of one skill, or one of its files."""
    return dict(
        await context.service(SkillKeeper).view(str(arguments["name"]), str(arguments.get("file_path") or ""))
    )


def _describe_list(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    subject = clean(str(arguments.get("category") or "")) or "all"
    if result is None or result.get("error"):
        return Display("skills", subject, error_text(result))
    lines = "\n".join(
        f"- {clean(str(each['name']))}: {clean(str(each['description']))}" for each in result["skills"]
    )
    return Display("skills", subject, plural(result.get("count", 0), "skill"), TextDetail(lines))


def _describe_view(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    subject = clean(" ".join(f"{arguments.get('name', '')} {arguments.get('file_path') or ''}".split()))
    if result is None or result.get("error"):
        return Display("skill", subject, error_text(result))
    tools = result.get("allowed_tools")
    summary = f"only with {', '.join(map(str, tools))}" if isinstance(tools, list) else ""
    return Display("skill", subject, clean(summary), TextDetail(clean(str(result.get("content", "")))))


registry.register(
    name="skills_list",
    toolset="skills",
    schema=tool_schema(
        "List the skills: written-down ways of doing a kind of task.", category={"type": "string"}
    ),
    handler=skills_list,
    describe=_describe_list,
    read_only=True,
    place=72,
    bundles=("default",),
    traits=("reads_skills",),
)

registry.register(
    name="skill_view",
    toolset="skills",
    schema=tool_schema(
        "Read a skill, or with file_path one of its files.",
        "name",
        name={"type": "string"},
        file_path={"type": "string"},
    ),
    handler=skill_view,
    describe=_describe_view,
    read_only=True,
    place=73,
    bundles=("default",),
    traits=("reads_skills",),
)
