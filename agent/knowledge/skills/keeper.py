"""The skills of one agent, as its tools and its messages use them."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from agent.events import Event, Noticed
from agent.knowledge.skills.capabilities import CapabilitiesInForce, capabilities
from agent.knowledge.skills.catalog import SkillCatalog, missing_variables
from agent.knowledge.skills.changes import SkillWrite, carried_out, drafted, folders_of
from agent.knowledge.skills.originals import SkillOriginals
from agent.knowledge.skills.skill import Skill, linked_files
from agent.knowledge.skills.viewing import file_of, instructions, listed, one, with_folder
from tools.results import ToolError
from tools.services.actions import Action, DeletePath, WritePath
from tools.services.skill_keeper import SkillChange, SkillDraft

log = logging.getLogger(__name__)

_CALLED = re.compile(r"/([^\s/]+)(?:\s+(.*))?", re.DOTALL)
ARGUMENTS = "$ARGUMENTS"
"""What a skill writes where the words behind `/name` belong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSkills:
    """What skills an agent can use, and what those it uses allow."""

    catalog: SkillCatalog
    environ: Mapping[str, str]
    """Variables of the person, those of `.env` among them."""
    passed: tuple[str, ...]
    """Names of variables that commands are given."""
    tools: Collection[str]
    """The names of all tools there are."""
    in_force: CapabilitiesInForce
    writing: Callable[[str, Action], Awaitable[None]]
    """Told, by the call, what is about to be written, so that it can be taken back."""
    emit: Callable[[Event], None]

    def of_call(self, call: str) -> SkillsOfCall:
        """These skills in the hands of one call."""
        return SkillsOfCall(self, call)

    async def meant(self, text: str) -> str:
        """What the model is told with a message that begins with `/name`; empty if that is no skill."""
        match = _CALLED.match(text.strip())
        if match is None:
            return ""
        found = await asyncio.to_thread(self.catalog.load)
        skill = found.get(match[1])
        if skill is None:
            return ""
        self.enter(skill)
        return await asyncio.to_thread(self._told, skill, (match[2] or "").strip())

    def enter(self, skill: Skill) -> tuple[str, ...] | None:
        """What a skill allows is in force from now on: the tools that can be called; None if all can."""
        found = capabilities(skill, self.tools, self.catalog.workspace, self.catalog.user)
        if found is not None and skill.name not in self.in_force.names and found.unknown:
            named = ", ".join(found.unknown[:8])
            text = (
                f"The skill {skill.name} allows tools that Hermes does not have, which is ignored: {named}."
            )
            self.emit(Noticed(kind="info", text=text))
        self.in_force.enter(found)
        return None if found is None else tuple(sorted(found.tools))

    def _told(self, skill: Skill, arguments: str) -> str:
        body = with_folder(skill.body, skill.folder)
        if ARGUMENTS in body:
            body = body.replace(ARGUMENTS, arguments)
        lines = [f"[The user runs the skill {skill.name}. Follow it. Its folder is {skill.folder}.]", body]
        files = [path for paths in linked_files(skill.folder).values() for path in paths]
        if files:
            lines.append(f"[Files of the skill: {', '.join(files[:50])}]")
        if missing := missing_variables(skill, self.environ):
            lines.append(f"[Not set in the environment, and needed: {', '.join(missing)}. Tell the user.]")
        if self.in_force.names:
            lines.append(f"[Until the next message of the user: {self._allowed()}]")
        lines.append(f"[What the user wrote behind its name: {arguments or 'nothing'}]")
        return "\n\n".join(lines)

    def _allowed(self) -> str:
        return f"only the tools that {', '.join(self.in_force.names)} allows can be called."


@dataclass(frozen=True, slots=True)
class SkillsOfCall:
    """The skills of an agent in the hands of one call (`tools.services.skill_keeper.SkillKeeper`)."""

    skills: SessionSkills
    call: str

    async def list(self, category: str) -> Mapping[str, Any]:
        return listed(await asyncio.to_thread(self.skills.catalog.load), category)

    async def view(self, name: str, file: str) -> Mapping[str, Any]:
        skills = self.skills
        skill = one(await asyncio.to_thread(skills.catalog.load), name)
        if file:
            result = await asyncio.to_thread(file_of, skill, file)
        else:
            result = await asyncio.to_thread(instructions, skill, skills.environ, skills.passed)
        allowed = skills.enter(skill)
        if allowed is not None:
            result["allowed_tools"] = list(allowed)
            result["until"] = "Until the next message of the user only these tools can be called."
        return result

    async def draft(self, change: SkillChange) -> SkillDraft:
        catalog = self.skills.catalog
        found = await asyncio.to_thread(catalog.load)
        return await asyncio.to_thread(drafted, change, found, catalog.home)

    async def carry_out(self, draft: SkillDraft) -> Mapping[str, Any]:
        write = draft.plan
        if not isinstance(write, SkillWrite):
            raise ToolError("This change was not worked out here; ask for it again.")
        await self._announce(write)
        await asyncio.to_thread(carried_out, write)
        if write.original:
            await asyncio.to_thread(self._remember, write)
        return {
            "name": draft.change.name,
            "path": draft.folder,
            "message": await asyncio.to_thread(self._done, draft.change, write),
        }

    def _remember(self, write: SkillWrite) -> None:
        try:
            SkillOriginals(self.skills.catalog.home).remember(write.folder, write.original)
        except OSError:
            log.warning("what %s was copied from cannot be written down", write.folder, exc_info=True)

    def _done(self, change: SkillChange, write: SkillWrite) -> str:
        """What the model is told of a change that was made."""
        if write.removes:
            return "Deleted. The list in the prompt follows from the next session on."
        off = next(
            (each for each in self.skills.catalog.load().off if each.skill.folder == write.folder), None
        )
        if off is not None:
            return f"Saved, but the skill is not used: {off.reason}. Tell the user."
        what = "names it" if change.act == "create" else "follows"
        return f"Saved. The list in the prompt {what} from the next session on; skill_view shows it now."

    async def _announce(self, write: SkillWrite) -> None:
        """Say what is about to change, by paths without links."""
        folders = await asyncio.to_thread(folders_of, write)
        root = await asyncio.to_thread(self.skills.catalog.home.skills.resolve)
        for path in write.paths():
            target = root / path.relative_to(self.skills.catalog.home.skills)
            gone = write.after[path] is None
            action = DeletePath if gone else WritePath
            await self.skills.writing(self.call, action(tool="skill_manage", path=target))
        for folder in folders:
            target = root / folder.relative_to(self.skills.catalog.home.skills)
            await self.skills.writing(self.call, DeletePath(tool="skill_manage", path=target))
