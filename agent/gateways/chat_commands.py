"""The commands of chats: their names, what they need, and which of them do not wait for the turn. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent.gateways.people import ChatScope


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


def help_text() -> str:
    """All commands, one a line."""
    return "\n".join(f"/{each.name}: {each.help}" for each in COMMANDS.values())
