"""Mentions such as `@reviewer` in a message: a note for the model on the kinds of agents that they name."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent.session.subagents.definitions import Catalog, Definitions, is_name
from agent.session.subagents.delegate_service import first_problem
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean

MOST = 8
"""The maximum number of kinds of agents in the note on one message."""

_MENTION = lazy_pattern(r"(?:^|(?<=[\s(\['\"]))@([a-z0-9]+(?:-[a-z0-9]+)*)(?![\w/@-]|\.\w)", re.MULTILINE)


def mentioned_names(text: str) -> list[str]:
    """Return the valid agent names after an `@`, each once, in order. Pure."""
    return [name for name in dict.fromkeys(_MENTION.findall(text)) if is_name(name)]


def note(names: Iterable[str], catalog: Catalog) -> str:
    """Return the note for the model about these names; empty if none is the name of a kind of agent. Pure."""
    lines = []
    for name in names:
        if (kind := catalog.definitions.get(name)) is not None:
            lines.append(f"- {name}: {clean(kind.description)}")
        elif (broken := catalog.broken.get(name)) is not None:
            lines.append(f"- {name} cannot be sent; tell the user. {first_problem(broken)}")
    if not lines:
        return ""
    head = "[With an @ the user names kinds of agents here, not files. Leave to each what is asked of it: "
    return "\n".join([f"{head}send it with delegate_task, its name as `agent`.]", *lines[:MOST]])


@dataclass(frozen=True, slots=True)
class Mentions:
    """Finds names of agents after an `@` in a message. A file of that name in the workspace comes first."""

    definitions: Definitions
    workspace: Path

    async def __call__(self, text: str) -> str:
        """Return the note for the model about a message's mentions; usually empty."""
        if "@" not in text or not (names := mentioned_names(text)):
            return ""
        return await asyncio.to_thread(self._note, names)

    def _note(self, names: Iterable[str]) -> str:
        catalog = self.definitions.load()
        return note((name for name in names if not os.path.lexists(self.workspace / name)), catalog)
