"""The system prompt of a session: its parts, and the decision to renew it for a resumed session."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.core.store.nodes import Node
from agent.integrations.plugins.session_plugins import SessionPlugins
from agent.integrations.plugins.shelf import catalog_for
from agent.knowledge.context.context_table import part_records
from agent.knowledge.context.layer import Facts, Part, SkillEntry, joined
from agent.knowledge.context.quarantine import kept_back_notices, passages_of
from agent.knowledge.memory.scopes import Scope, project_id, project_root
from agent.knowledge.memory.service import MemoryBlock, MemoryFiles, MemoryProvider
from agent.knowledge.skills.skill import SCOPES
from agent.model.protocol import Profile, ToolSpec
from agent.session.conversation.live_session import LiveSession

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

MOST_LEARNINGS = 100
"""The maximum number of learnings read for the system prompt, which shows as many as fit."""


async def ensure_system(
    session: LiveSession,
    workspace: Path,
    home: Home,
    settings: Settings,
    profile: Profile,
    tools: Sequence[ToolSpec],
    notes: MemoryProvider,
    window: int | None = None,
    plugins: SessionPlugins | None = None,
    searched: Sequence[str] = (),
) -> bool:
    """Store the system prompt to use; return True if it replaces the prompt of a resumed session.

    A stored prompt is kept byte for byte as long as profile, tools and folder are unchanged. `window` is the
    model's context window in tokens, of which the layers get a share. `notes` are shown in their current
    state; `plugins` add sections and skills. `searched` names the tools that can be called but are not shown.
    """
    offered = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools
    ]
    stored = session.system()
    if (
        stored is not None
        and stored.data.get("profile") == profile.name
        and stored.data.get("tools") == offered
        and not _is_of_another_folder(session, stored, workspace)
    ):
        return False
    learned: Sequence[str] = ()
    remembered: Sequence[MemoryBlock] = ()
    if profile.system_prompt is None:
        learned = await _learning_lines(session, workspace, settings)
        remembered = await notes.blocks() if settings.memory.enabled else ()
    parts = await asyncio.to_thread(
        _prompt,
        workspace,
        home,
        settings,
        profile,
        [*(tool.name for tool in tools), *searched],
        window,
        learned,
        remembered,
        plugins,
    )
    about = {
        "profile": profile.name,
        "tools": offered,
        "parts": part_records(parts),
        "workspace": str(workspace),
    }
    await session.add("system", joined(parts), about)
    return stored is not None


def _is_of_another_folder(session: LiveSession, stored: Node, workspace: Path) -> bool:
    """Return whether the stored prompt names a folder other than the session's workspace."""
    if (said := stored.data.get("workspace")) is not None:
        return said != str(workspace)
    notices = session.path.labelled("notice")
    return any(node.data.get("kind") == "workspace" and node.id > stored.id for node in notices)


def shown_before(session: LiveSession) -> tuple[ToolSpec, ...] | None:
    """Return the tools in the session's last requests before this start; None for a new session."""
    stored = session.system()
    if stored is None:
        return None
    tools = stored.data.get("tools") or ()
    return tuple(ToolSpec(each["name"], each["description"], each["parameters"]) for each in tools)


def _prompt(
    workspace: Path,
    home: Home,
    settings: Settings,
    profile: Profile,
    tools: Sequence[str],
    window: int | None,
    learned: Sequence[str],
    remembered: Sequence[MemoryBlock],
    plugins: SessionPlugins | None,
) -> tuple[Part, ...]:
    today = date.today().isoformat()
    if profile.system_prompt is not None:
        text = profile.system_prompt.replace("{workspace}", str(workspace)).replace("{date}", today)
        return (Part("System prompt", text),)
    from agent.knowledge.context.context_files import project_files, soul_file
    from agent.knowledge.context.layer import system_prompt
    from agent.knowledge.context.quarantine import allowed_passages
    from agent.workspace.git import branch

    limit = settings.context.file_chars
    allowed = allowed_passages(home)
    soul = soul_file(home.soul, limit, allowed) if profile.context_files else None
    facts = Facts(
        soul=soul,
        project_files=project_files(workspace, limit, allowed) if profile.context_files else (),
        workspace=str(workspace),
        date=today,
        tools=tools,
        platform=f"{platform.system()} {platform.machine()}",
        tone=tone_of(settings)[0],
        memory=[block for block in remembered if block.text],
        learnings=learned,
        brief=profile.brief,
        skills=_skills(home, workspace, settings, plugins) if profile.context_files else (),
        plugins=() if plugins is None else plugins.sections(),
        branch=branch(workspace) or "",
        budgets=settings.context.budgets.model_dump(),
        whole=None if window is None else int(window * settings.context.prompt_share),
    )
    return system_prompt(facts)


def kept_back(session: LiveSession) -> list[str]:
    """Return sentences about text that the prompt omits because it reads like an instruction to an agent."""
    system = session.system()
    parts = system.data.get("parts", ()) if system is not None else ()
    return kept_back_notices([each for part in parts for each in passages_of(part.get("passages"))])


async def _learning_lines(session: LiveSession, workspace: Path, settings: Settings) -> Sequence[str]:
    """Return lines about known failures in the project; empty if learnings are disabled."""
    if not settings.learnings.enabled:
        return ()
    from agent.knowledge.learnings.learning import entries
    from agent.knowledge.learnings.store import LearningStore

    project = await asyncio.to_thread(lambda: project_id(project_root(workspace)))
    store = LearningStore(session.store.database, project)
    return entries(await store.list_learnings(("learning",), limit=MOST_LEARNINGS))


def _skills(
    home: Home, workspace: Path, settings: Settings, plugins: SessionPlugins | None
) -> list[SkillEntry]:
    """Return the skills for the index: project and personal skills before bundled ones."""
    catalog = catalog_for(home, workspace, settings, () if plugins is None else plugins.skill_folders())
    found = catalog.load().skills if catalog is not None else ()
    ordered = sorted(found, key=lambda each: (SCOPES.index(each.scope), each.name))
    return [SkillEntry(each.name, each.description) for each in ordered]


def memory_files(home: Home, workspace: Path, settings: Settings) -> MemoryFiles:
    """Return the notes that outlive a session, with the size limits of the settings."""
    return MemoryFiles(home.memories, workspace, memory_limits(settings))


def memory_limits(settings: Settings) -> dict[Scope, int]:
    """Return the maximum number of characters for each scope of the notes."""
    sizes = settings.memory
    return {"memory": sizes.memory_chars, "user": sizes.user_chars, "project": sizes.project_chars}


def tone_of(settings: Settings) -> tuple[str, str]:
    """Return the chosen personality as a paragraph, and a sentence about a problem with the choice.

    Both may be empty.
    """
    if not settings.display.personality:
        return "", ""
    from themes.personalities import personality

    try:
        return personality(settings.display.personality).style, ""
    except KeyError as error:
        return "", f"display.personality: {error.args[0]}"
