"""Requests with known right answers, in a real folder: what the small model is measured by.

None of them appears among the profile's worked examples. A request counts as
right by its first call and by what the turn left behind, never by its wording.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Turn:
    """What one turn did: its calls in order, its answer, and the folder afterwards."""

    calls: tuple[Call, ...]
    answer: str
    folder: Path

    def first(self, *patterns: str) -> bool:
        """Whether the first call is `tool text…`: the tool's name, and every word in its arguments."""
        if not self.calls:
            return False
        name, arguments = self.calls[0]
        said = " ".join(str(value) for value in arguments.values())
        return any(
            tool == name and all(word in said for word in words)
            for tool, *words in (pattern.split() for pattern in patterns)
        )


@dataclass(frozen=True)
class Task:
    name: str
    request: str
    right: Callable[[Turn], bool]


def furnish(folder: Path) -> None:
    """Fill an empty folder with everything the tasks speak of."""
    files = {
        "poem.txt": "".join(f"verse {number}\n" for number in range(1, 24)),
        "settings.toml": 'title = "Garden"\nowner = "Ida"\n',
        "hello.py": 'print("good " + "morning".upper())\n',
        "report.py": "print(sum(n * n for n in range(1, 12)))\n",
        "config.ini": "[server]\nhost = localhost\nport = 8000\n",
        "old.log": "nothing of interest\n",
        "data/a.csv": "x,y\n1,2\n",
        "data/b.csv": "x,y\n3,4\n",
        "birds/lake.txt": "swans and ducks\n",
        "birds/river.txt": "a kingfisher\nand a heron\n",
        "logs/server.log": "".join(f"request {number} ok\n" for number in range(37)),
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for command in ("init -q -b harvest", "add poem.txt", "commit -q -m Begin"):
        who = ["-c", "user.name=Ida", "-c", "user.email=ida@example.org"]
        subprocess.run(["git", *who, *command.split()], cwd=folder, check=True)


SINGLE = (
    Task("list", "List the files in the folder data.", lambda t: t.first("terminal ls data")),
    Task(
        "show",
        "Show me what is in settings.toml.",
        lambda t: t.first("read_file settings.toml", "terminal cat settings.toml") and "Ida" in t.answer,
    ),
    Task(
        "count",
        "How many lines does poem.txt have?",
        lambda t: t.first("terminal wc poem.txt", "read_file poem.txt") and "23" in t.answer,
    ),
    Task("version", "Which version of Python is installed here?", lambda t: t.first("terminal python -")),
    Task(
        "create",
        "Create a file shopping.txt with the text: buy milk",
        lambda t: (
            t.first("write_file shopping.txt buy milk", "terminal shopping.txt buy milk")
            and "buy milk" in _content(t.folder / "shopping.txt")
        ),
    ),
    Task(
        "run",
        "Run the script hello.py and tell me its output.",
        lambda t: t.first("terminal python hello.py") and "MORNING" in t.answer,
    ),
    Task(
        "search",
        "Which file mentions the word heron?",
        lambda t: t.first("search heron", "terminal grep heron") and "river.txt" in t.answer,
    ),
    Task(
        "branch",
        "What is the current git branch?",
        lambda t: t.first("terminal git") and "harvest" in t.answer,
    ),
    Task(
        "delete",
        "Delete the file old.log.",
        lambda t: t.first("terminal rm old.log") and not (t.folder / "old.log").exists(),
    ),
    Task("disk", "How much disk space is free on this machine?", lambda t: t.first("terminal df")),
    Task("capital", "What is the capital of France?", lambda t: not t.calls and "Paris" in t.answer),
    Task("thanks", "Thank you, that was helpful!", lambda t: not t.calls and bool(t.answer.strip())),
)

TWO_STEPS = (
    Task(
        "log lines",
        "How many lines are in logs/server.log?",
        lambda t: bool(t.calls) and "37" in t.answer,
    ),
    Task(
        "computed",
        "What does report.py print?",
        lambda t: bool(t.calls) and "506" in t.answer,
    ),
    Task(
        "find",
        "Find the file that contains the word kingfisher.",
        lambda t: bool(t.calls) and "river.txt" in t.answer,
    ),
    Task(
        "edit and check",
        "Change the port in config.ini from 8000 to 9000, then show me the file to check it.",
        lambda t: (
            len(t.calls) > 1
            and _content(t.folder / "config.ini") == "[server]\nhost = localhost\nport = 9000\n"
            and "9000" in t.answer
        ),
    ),
)


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
