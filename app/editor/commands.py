"""Slash commands that can be run from an editor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.api.project_notes import drafting_instruction
from tools.text.safe_text import clean
from tools.text.words import full_stop

if TYPE_CHECKING:
    from agent.api.session import SessionClient


@dataclass(frozen=True, slots=True)
class EditorCommand:
    """One slash command. `act` returns the text to show, and raises `HermesError`."""

    name: str
    description: str
    act: Callable[[SessionClient, str], Awaitable[str]]
    hint: str = ""
    """A hint on the arguments of the command; empty if it takes none."""
    asks: bool = False
    """True if the text of `act` is sent to the model instead of being shown."""


async def _compact(client: SessionClient, focus: str) -> str:
    return await client.compact(focus)


async def _context(client: SessionClient, _words: str) -> str:
    table = await client.context()
    window = "unknown" if table.window is None else f"{table.window:,}"
    window += " (reported by the server)" if table.window_told else ""
    rows = [f"- {clean(layer.name)}: {layer.tokens:,} tokens" for layer in table.layers]
    return "\n".join([f"{table.used_tokens:,} tokens of a window of {window}:", "", *rows])


async def _undo(client: SessionClient, _words: str) -> str:
    operation, result = await client.history.undo()
    return clean(f"Undone: {full_stop(operation.label)} {result.sentence()}")


async def _redo(client: SessionClient, _words: str) -> str:
    operation, result = await client.history.redo()
    return clean(f"Redone: {full_stop(operation.label)} {result.sentence()}")


async def _init(client: SessionClient, _words: str) -> str:
    return await asyncio.to_thread(drafting_instruction, client.workspace)


_ALL = (
    EditorCommand(
        "compact", "Compact the conversation so far into a summary.", _compact, "what matters most"
    ),
    EditorCommand("context", "What fills the window of the model.", _context),
    EditorCommand("undo", "Take the last turn back, its files with it.", _undo),
    EditorCommand("redo", "Redo what was undone last.", _redo),
    EditorCommand("init", "Draft AGENTS.md, or propose improvements to it.", _init, asks=True),
)
COMMANDS = {each.name: each for each in _ALL}


def command_of(text: str) -> tuple[EditorCommand, str] | None:
    """Return the command that a message names, and its arguments; None if it names none. Pure."""
    if not text.startswith("/"):
        return None
    name, _, rest = text[1:].partition(" ")
    command = COMMANDS.get(name.strip())
    return None if command is None else (command, rest.strip())
