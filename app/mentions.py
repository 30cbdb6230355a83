"""The files of the project and the kinds of agents, as the prompt offers them for `@`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from agent.home import Home
from widgets.prompt.completion import Command

SECONDS = 10
MAX_FILES = 200_000
NOISE = ("!.git", "!node_modules", "!__pycache__", "!.venv")


def files_of(root: Path) -> Callable[[], list[str]]:
    """A function that lists the files below `root`, ignored ones left out. It blocks: call it in a thread."""

    def listed() -> list[str]:
        from tools.files.searching import find_ripgrep

        program = find_ripgrep()
        if program is None:
            return sorted(path.name for path in root.iterdir())
        globs = [argument for noise in NOISE for argument in ("--glob", noise)]
        command = [program, "--no-config", "--files", "--hidden", *globs, "--null"]
        try:
            done = subprocess.run(
                command, cwd=root, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        # A name that is no text keeps halves of characters, by which the prompt knows not to offer it.
        names = done.stdout.decode("utf-8", "surrogateescape").split("\0")
        return [name for name in names[:MAX_FILES] if name]

    return listed


def agents_of(home: Home, workspace: Path) -> Callable[[], list[Command]]:
    """A function that lists the kinds of agents that can be sent. It blocks: call it in a thread."""

    def listed() -> list[Command]:
        from agent.subagents.definitions import Definitions
        from tools.text import clean

        found = Definitions(home, workspace).load().definitions.values()
        return [Command(each.name, clean(each.description), "agent") for each in found]

    return listed
