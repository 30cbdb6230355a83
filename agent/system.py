"""The system prompt of a session: what it is made of, and when a resumed session gets a new one."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from agent.context.profile import Profile
from agent.context.prompt import Part, joined
from agent.context.table import recorded
from agent.home import Home
from agent.model.protocol import ToolSpec
from agent.session import LiveSession

if TYPE_CHECKING:
    from agent.config.schema import Settings


async def ensure_system(
    session: LiveSession,
    workspace: Path,
    home: Home,
    settings: Settings,
    profile: Profile,
    tools: Sequence[ToolSpec],
) -> bool:
    """Put the system prompt in force; True if a resumed session had to get a new one.

    A stored prompt is kept byte for byte as long as profile and tools are the same.
    """
    offered = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools
    ]
    stored = session.system()
    if (
        stored is not None
        and stored.data.get("profile") == profile.name
        and stored.data.get("tools") == offered
    ):
        return False
    parts = await asyncio.to_thread(_prompt, workspace, home, settings, profile, tools)
    about = {"profile": profile.name, "tools": offered, "parts": recorded(parts)}
    await session.add("system", joined(parts), about)
    return stored is not None


def _prompt(
    workspace: Path, home: Home, settings: Settings, profile: Profile, tools: Sequence[ToolSpec]
) -> tuple[Part, ...]:
    today = date.today().isoformat()
    if profile.system_prompt is not None:
        text = profile.system_prompt.replace("{workspace}", str(workspace)).replace("{date}", today)
        return (Part("System prompt", text),)
    from agent.context.files import project_file, soul_file
    from agent.context.prompt import system_prompt

    limit = settings.context.file_chars
    soul = soul_file(home.soul, limit) if profile.context_files else None
    project = project_file(workspace, limit) if profile.context_files else None
    return system_prompt(
        soul=soul,
        project_files=[project] if project is not None else [],
        workspace=str(workspace),
        date=today,
        tools=[tool.name for tool in tools],
        platform=f"{platform.system()} {platform.machine()}",
        tone=tone_of(settings)[0],
    )


def tone_of(settings: Settings) -> tuple[str, str]:
    """The chosen personality as a paragraph, and what is wrong with the choice; both may be empty."""
    if not settings.display.personality:
        return "", ""
    from themes.personalities import personality

    try:
        return personality(settings.display.personality).style, ""
    except KeyError as error:
        return "", f"display.personality: {error.args[0]}"
