"""The command that writes the branch in use into a file, in the formats of `hermes sessions export`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home, from_home
from agent.errors import ConfigError, HermesError
from app.tui.commands.registry import AppCommand
from tools.kit.children import start_child
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from app.tui.app_context import AppContext

ENDINGS = {
    "html": "html",
    "jsonl": "jsonl",
    "sharegpt": "json",
    "openai": "json",
    "atif": "json",
    "patch": "patch",
}
"""The formats, and how the names of their files end."""
_START = "import sys; sys.path[:] = {path!r}; from app.main import main; sys.exit(main({arguments!r}))"


def read_words(words: str) -> tuple[str, str]:
    """Return format and path in `[FORMAT] [PATH]`; a path alone decides the format. Raises `ConfigError`."""
    first, _, path = words.strip().partition(" ")
    if first in ENDINGS or not first:
        return first or "html", path.strip().strip("\"'")
    path = words.strip().strip("\"'")
    ending = Path(path).suffix.removeprefix(".").lower()
    layout = next((name for name, each in ENDINGS.items() if ending in (name, each)), "")
    if not layout:
        raise ConfigError(f"{first[:40]!r} names no format; write one of {', '.join(ENDINGS)} first.")
    return layout, path


def _file(workspace: Path, name: str, path: str) -> Path:
    """Return the file to write: `path` in the workspace, or one in the home, whose folder is made."""
    if path:
        return workspace / Path(path).expanduser()
    folder = Home.locate().root / "exports"
    folder.mkdir(0o700, parents=True, exist_ok=True)
    return folder / name


async def _export(app: AppContext, words: str) -> None:
    layout, path = read_words(words)
    client = app.need_client()
    file = await asyncio.to_thread(_file, client.workspace, f"{client.id}-{layout}.{ENDINGS[layout]}", path)
    arguments = ["sessions", "export", client.id, "--format", layout, "--branch", client.branch]
    arguments += ["-o", str(file), *(() if path else ("--force",))]
    child = await start_child(
        [sys.executable, "-I", "-c", _START.format(path=sys.path, arguments=arguments)],
        stderr=subprocess.PIPE,
        env=os.environ,
    )
    _, said = await child.communicate()
    if child.returncode:
        words = clean(said.decode("utf-8", "replace")).strip().removeprefix("hermes: ")
        raise HermesError(words.replace(" or give --force", "") or "The session was not written.")
    app.say(f"Written to {from_home(file)}, secrets masked.")


COMMAND = AppCommand(
    id="session.export",
    group="Sessions",
    name="Export this session",
    description="Write the branch in use to a file: html (a page), jsonl, sharegpt, openai, atif or patch.",
    action=_export,
    slash="export",
    argument_hint="[format] [path]",
)
