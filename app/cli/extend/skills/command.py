"""One command of `hermes skills`, and what several of them need."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.core.home import Home

if TYPE_CHECKING:
    from agent.knowledge.skills.catalog import SkillCatalog


@dataclass(frozen=True, slots=True)
class SkillCommand:
    """A command; `--json` is declared for each."""

    name: str
    summary: str
    """What it does, for the help."""
    declare: Callable[[argparse.ArgumentParser], None]
    """Adds its arguments."""
    run: Callable[[argparse.Namespace], int]
    """Carries it out; its exit code. Raises `HermesError`."""


def open_catalog(args: argparse.Namespace) -> SkillCatalog:
    """The skills of the folder that is worked in."""
    from agent.core.config.loader import load
    from agent.integrations.plugins.skill_catalog import skill_catalog
    from app.cli.safety.folder import workspace

    home, here = Home.locate(), workspace(getattr(args, "cwd", None))
    return skill_catalog(home, here, load(home, dict(os.environ), here).settings)
