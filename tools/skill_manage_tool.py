"""The tool by which the agent writes and corrects skills.

New text is checked against the format, scanned and shown as a diff before permission is requested. The change
is a step of the session, which can be undone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tools.context import Asker, ToolContext
from tools.effects import Effect, declare_effect
from tools.files.diffs import shorten_diff
from tools.registry import Arguments, registry, tool_schema
from tools.results import DiffDetail, Display, ToolError, error_text
from tools.services.actions import Action
from tools.services.skill_keeper import SkillAct, SkillChange, SkillDraft, SkillKeeper
from tools.text.safe_text import clean

ACTS = ("create", "patch", "edit", "delete", "write_file", "remove_file")
_SHOWN_DIFF = 8_000
"""Characters of the diff shown with the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSkill(Action):
    """Writing or removing files of a skill, which later sessions will follow."""

    name: str
    act: str
    diff: str = ""

    def headline(self) -> str:
        return f"{self.act} the skill {self.name}\n{self.diff}".rstrip()


ChangeSkill.effect = declare_effect(
    Effect(
        name="skill_manage",
        why="changes instructions that later sessions will follow",
        subject=lambda action: action.name,
        example=lambda text: ChangeSkill(tool="skill_manage", name=text, act="edit"),
    )
)


def change_of(arguments: Mapping[str, Any]) -> SkillChange:
    """Return the change to a skill that the arguments request. Raises `ToolError`."""
    act = str(arguments.get("action") or "").strip().lower()
    if act not in ACTS:
        raise ToolError(f"Unknown action {act[:40]!r}; use {', '.join(ACTS)}.")
    needed = {
        "create": ("content",),
        "edit": ("content",),
        "patch": ("old_string",),
        "write_file": ("file_path", "file_content"),
        "remove_file": ("file_path",),
    }.get(act, ())
    for key in needed:
        if not arguments.get(key) and key != "file_content":
            raise ToolError(f"{act} needs {key}.")
    content = arguments.get("file_content") if act == "write_file" else arguments.get("content")
    return SkillChange(
        act=cast(SkillAct, act),
        name=str(arguments["name"]).strip(),
        content=str(content or ""),
        category=str(arguments.get("category") or "").strip(),
        file=str(arguments.get("file_path") or "").strip(),
        old=str(arguments.get("old_string") or ""),
        new=str(arguments.get("new_string") or ""),
        everywhere=bool(arguments.get("replace_all")),
    )


async def skill_manage(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Prepare a change to a skill, request permission, and write it. Raises `ToolError`."""
    draft = await context.service(SkillKeeper).draft(change_of(arguments))
    await _ask_for_skill(draft, context)
    change = draft.change
    diff = shorten_diff(draft.diff, _SHOWN_DIFF)
    await context.permit(ChangeSkill(tool="skill_manage", name=change.name, act=change.act, diff=diff))
    result = {"success": True, **await context.service(SkillKeeper).carry_out(draft)}
    result |= {"added": draft.added, "removed": draft.removed, "diff": shorten_diff(draft.diff)}
    return result | ({"findings": list(draft.findings)} if draft.findings else {})


async def _ask_for_skill(draft: SkillDraft, context: ToolContext) -> None:
    """Ask the user about a dangerous skill, in every permission mode. Raises `ToolError` without consent."""
    if not draft.danger:
        return
    found = "\n".join(f"- {each}" for each in draft.danger[:8])
    question = f"The skill {draft.change.name} reads like an attack. Save it all the same?\n{found}"
    answer = await context.service(Asker).ask(question, ("No", "Yes, save it"), False)
    if answer.outcome != "answered" or not answer.text.startswith("Yes"):
        why = "; ".join(draft.danger[:3])
        raise ToolError(
            f"Not saved: the skill reads like an attack and nobody agreed ({why}).", status="blocked"
        )


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    act, name = clean(str(arguments.get("action", ""))), clean(str(arguments.get("name", "")))
    file = clean(str(arguments.get("file_path") or ""))
    subject = " ".join(each for each in (act, name, file) if each)
    if result is None or result.get("error"):
        return Display("skill", subject, error_text(result))
    summary = f"+{result.get('added', 0)} −{result.get('removed', 0)}"
    return Display("skill", subject, summary, DiffDetail(str(result.get("diff", ""))))


registry.register(
    name="skill_manage",
    toolset="skills",
    schema=tool_schema(
        (
            "Write down a way of doing a kind of task, or fix one that turned out wrong; later sessions "
            "follow it. create and edit take the whole SKILL.md as content, with name and description as "
            "YAML between two lines of ---; create also a category. patch takes old_string, new_string, "
            "replace_all, and file_path for another file than SKILL.md. Files beside it lie below "
            "references/, templates/, scripts/ or assets/ and take file_path and file_content. A bundled "
            "skill is copied before it is changed. Read the skill writing-a-skill first."
        ),
        "action",
        "name",
        action={"type": "string", "enum": list(ACTS)},
        name={"type": "string", "description": "a-z, 0-9 and single hyphens."},
        content={"type": "string"},
        category={"type": "string"},
        old_string={"type": "string"},
        new_string={"type": "string"},
        replace_all={"type": "boolean"},
        file_path={"type": "string"},
        file_content={"type": "string"},
    ),
    handler=skill_manage,
    describe=_describe,
    place=74,
    bundles=("default",),
    traits=("whole_session",),
)
