"""The commands of chats: their names, what they need, and which of them do not wait for the turn. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from agent.integrations.gateways.people import ChatScope


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """One command."""

    name: str
    help: str
    scope: ChatScope = "talk"
    at_once: bool = False
    """Whether it is carried out while a turn runs, before what waits."""


COMMANDS = {
    each.name: each
    for each in (
        ChatCommand("help", "what can be written here", "look", at_once=True),
        ChatCommand("new", "begin a new session here"),
        ChatCommand("stop", "stop what runs", at_once=True),
        ChatCommand("steer", "TEXT: be read before the next request of the running turn", at_once=True),
        ChatCommand("status", "session, model, what runs and what waits", "look", at_once=True),
        ChatCommand("model", "[NAME]: the model, or go on with another one"),
        ChatCommand("sessions", "the sessions used last", "look"),
        ChatCommand("resume", "ID: go on with one of them here"),
        ChatCommand("undo", "take back the last turn, with what it did to files"),
        ChatCommand("redo", "do again what was undone"),
        ChatCommand("compact", "fold the conversation"),
        ChatCommand("move", "GATEWAY | terminal: go on in another messenger, or only in the terminal"),
        ChatCommand("id", "your id and that of this chat, for the settings", "look", at_once=True),
    )
}
_WORD = re.compile(r"/([A-Za-z][\w.:-]{0,63})(?:\s+(.*))?", re.DOTALL)
_ESCAPED = re.compile(r"\s*//[A-Za-z][\w.:-]*(?:\s|$)")
ALIASES = {"start": "help", "reset": "new", "cancel": "stop", "whoami": "id"}


def command_of(text: str) -> tuple[ChatCommand, str] | None:
    """The command that a message is, and what stands behind it; None for a message.

    Some programs of messengers keep what begins with `/` to themselves, so `!` says the same.
    """
    said = text.strip()
    if not said.startswith(("/", "!")):
        return None
    name, _, rest = said[1:].partition(" ")
    found = COMMANDS.get(ALIASES.get(name.lower(), name.lower()))
    return None if found is None else (found, rest.strip())


def word_of(text: str) -> tuple[str, str] | None:
    """The name of a command or a skill that a message begins with, and what stands behind it.

    None for a message: also for a path, and for one that begins with two slashes.
    """
    found = _WORD.fullmatch(text.strip())
    return (found[1], (found[2] or "").strip()) if found else None


def plain(text: str) -> str:
    """A message without the slash that tells it from a command."""
    return text.replace("//", "/", 1) if _ESCAPED.match(text) else text


def no_command(name: str) -> str:
    """A sentence about a command that does not exist."""
    near = get_close_matches(name.lower(), [*COMMANDS, *ALIASES], n=1, cutoff=0.6)
    offer = f"; did you mean /{near[0]}?" if near else "."
    return f"There is no command /{name}{offer} /help lists them; //{name} begins a message with a slash."


def help_text() -> str:
    """All commands, one a line."""
    return "\n".join(f"/{each.name}: {each.help}" for each in COMMANDS.values())
