"""Problems of the settings that a session can begin with, as sentences for the person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.integrations.plugins.shelf import catalog_for
from agent.session.conversation.session_prompt import tone_of
from agent.session.wiring.routes import RoutePlan
from tools.discovery import discover

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings


def problems_of(loaded: LoadedSettings, plan: RoutePlan, home: Home, workspace: Path) -> list[str]:
    """What is wrong with the settings and can be gone on without. Reads files."""
    problems = [str(problem) for problem in loaded.problems]
    if wrong := tone_of(loaded.settings)[1]:
        problems.append(wrong)
    if loaded.project == "untrusted":
        problems.append(
            "This project brings settings of its own, which were not read; see `hermes config trust`."
        )
    problems += [plan.problem] if plan.problem else []
    if loaded.settings.context.file_chars:
        from agent.knowledge.context.context_files import unread

        problems += unread(home.soul, workspace)
    if (skills := catalog_for(home, workspace, loaded.settings, ())) is not None:
        problems += skills.load().troubles()
    return problems + [f"The tools of {each.module} are missing: {each.reason}" for each in discover()]
