"""Commands that are typed on the page: each is carried out here, or refused in one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from agent.errors import HermesError
from app.tui.commands.slash_words import words_of
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.store.operations import Operation
    from agent.integrations.gateways.ports import WordKind
    from agent.session.history.navigation import NavigationResult
    from app.service.hosted_session import HostedSession
    from app.service.session_hub import SessionHub

Words = dict[str, str]
"""What is told of a command: `told`, and a `draft` where a message came back."""


@dataclass(frozen=True, slots=True)
class HeadCommand:
    """One command. `act` gets the sessions, the session and what was typed behind the name."""

    name: str
    help: str
    act: Callable[[SessionHub, HostedSession, str], Awaitable[Words]]
    hint: str = ""
    """What may follow it; empty where nothing does."""


async def word_kind(client: SessionClient, name: str) -> WordKind:
    """What `/name` is beside commands: that of a plugin, a skill or a prompt of a server, or nothing."""
    if any(each.name == name for each in await client.plugins.commands()):
        return "plugin"
    found = await asyncio.to_thread(words_of, client.workspace)
    return "prompt" if any(each.name == name for each in found) else ""


async def run_command(hub: SessionHub, session: HostedSession, text: str) -> Words:
    """Carry out `name words`. Raises `HermesError` with a sentence, also where there is no such command."""
    name, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    if (command := COMMANDS.get(name.lower())) is not None:
        if rest and not command.hint:
            raise HermesError(f"/{command.name} takes nothing after it.")
        if not rest and command.hint.startswith("<"):
            raise HermesError(f"/{command.name} needs {command.hint} after it.")
        return await command.act(hub, session, rest)
    if (kind := await word_kind(session.client, name)) == "plugin":
        return {"told": await session.client.plugins.run(name, rest)}
    if kind == "prompt":
        await session.taken(f"/{text.strip()}", "prompt")
        return {"told": ""}
    near = get_close_matches(name.lower(), COMMANDS, n=1, cutoff=0.7)
    offer = f"did you mean /{near[0]}?" if near else "the terminal may have it (`hermes --attach`)."
    raise HermesError(f"There is no command /{clean(name)[:40]} on this page; {offer} /help lists them.")


async def _undo(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    return _went("Undone", *await session.client.history.undo(), "/redo does it again.")


async def _redo(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    return _went("Done again", *await session.client.history.redo(), "/undo takes it back.")


def _went(word: str, operation: Operation, result: NavigationResult, rest: str) -> Words:
    files = result.restored.sentence() if result.restored is not None else "Files stay as they are."
    return {"told": clean(f"{word}: {operation.label}. {files} {rest}"), "draft": result.draft}


async def _stop(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    if not session.client.busy:
        return {"told": "Nothing is running."}
    session.client.interrupt()
    return {"told": ""}


async def _steer(_hub: SessionHub, session: HostedSession, rest: str) -> Words:
    await session.taken(rest, "steer")
    return {"told": ""}


async def _compact(_hub: SessionHub, session: HostedSession, rest: str) -> Words:
    return {"told": await session.client.compact(rest)}


async def _context(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    table = await session.client.context()
    window = "an unknown window" if table.window is None else f"a window of {table.window:,}"
    rows = [f"{each.tokens:>9,}  {clean(each.name)}" for each in table.layers]
    return {"told": "\n".join([f"{table.used:,} tokens of {window}:", *rows])}


async def _model(hub: SessionHub, session: HostedSession, rest: str) -> Words:
    if not rest:
        return {"told": f"The model is {session.client.model}; /model NAME goes on with another one."}
    opened = await hub.reopen(session.id, rest)
    return {"told": f"It goes on with {opened.client.model}."}


async def _effort(_hub: SessionHub, session: HostedSession, rest: str) -> Words:
    client = session.client
    level = await client.set_effort(rest) if rest else client.effort
    return {"told": f"The model thinks as much as this: {level or 'as its provider likes'}."}


async def _mode(_hub: SessionHub, session: HostedSession, _rest: str) -> Words:
    mode = session.client.mode
    return {"told": f"The mode is {mode}; it is changed in the terminal (`hermes --attach`)."}


async def _title(_hub: SessionHub, session: HostedSession, rest: str) -> Words:
    await session.client.stored.rename(session.id, rest)
    session.title = rest
    return {"told": f"This session is called {clean(rest)} now."}


async def _move(hub: SessionHub, session: HostedSession, rest: str) -> Words:
    return {"told": await hub.move(session, rest)}


_ALL = (
    HeadCommand("undo", "Take back the last turn, with what it did to files.", _undo),
    HeadCommand("redo", "Do again what was undone.", _redo),
    HeadCommand("stop", "Stop the running turn.", _stop),
    HeadCommand("steer", "Say something that is read before the next request.", _steer, "<text>"),
    HeadCommand("model", "Show the model, or go on with another one.", _model, "[name]"),
    HeadCommand("effort", "Show how much the model thinks, or change it.", _effort, "[level]"),
    HeadCommand("mode", "Show the mode of permissions.", _mode, "[mode]"),
    HeadCommand("compact", "Fold the conversation so far into a summary.", _compact, "[focus]"),
    HeadCommand("context", "Show what fills the window of the model.", _context),
    HeadCommand("title", "Give the session a title.", _title, "<title>"),
    HeadCommand("move", "Go on in a messenger.", _move, "<messenger|here>"),
)
COMMANDS = {each.name: each for each in _ALL}


def listed_commands() -> list[dict[str, Any]]:
    """Name, hint and help of each, for a head that comes in. Pure."""
    return [{"name": each.name, "hint": each.hint, "help": each.help} for each in _ALL]
