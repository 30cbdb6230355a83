"""The project's files and the kinds of agents that the prompt offers after `@`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from agent.core.home import Home
from widgets.prompt.completion import CommandChoice

SECONDS = 10.0
MAX_FILES = 200_000
NOISE = (".git", "node_modules", "__pycache__", ".venv")


def files_of(root: Path) -> Callable[[], list[str]]:
    """Return a function that lists the files below `root`, without ignored ones. It blocks: call it in a
    thread.

    The list has at most `MAX_FILES` files, those found within `SECONDS` or before an error.
    """

    def list_files() -> list[str]:
        from tools.files.searching import SearchEnding, SearchRequest, records
        from tools.results import ToolError

        names: list[str] = []
        until = time.monotonic() + SECONDS
        try:
            with closing(
                records(SearchRequest(root, None, NOISE), SearchEnding(), threading.Event())
            ) as found:
                for name in found:
                    # A name that is not valid text keeps surrogates, and the prompt leaves it out.
                    names.append(os.fsdecode(name).removeprefix("./"))
                    if len(names) >= MAX_FILES or time.monotonic() > until:
                        break
        except (OSError, ToolError):
            pass  # a partial list is better than none
        return names

    return list_files


def agents_of(home: Home, workspace: Path) -> Callable[[], list[CommandChoice]]:
    """Return a function that lists the available kinds of agents. It blocks: call it in a thread."""

    def list_agents() -> list[CommandChoice]:
        from agent.session.subagents.definitions import Definitions
        from tools.text.safe_text import clean

        found = Definitions(home, workspace).load().definitions.values()
        return [CommandChoice(each.name, clean(each.description), "agent") for each in found]

    return list_agents
