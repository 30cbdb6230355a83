"""Prompts of servers as words of a message: `/mcp__server__prompt words`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Mapping

from agent.errors import HermesError
from agent.integrations.mcp.catalog import PromptDefinition
from agent.integrations.mcp.names import PREFIX, tool_names
from agent.integrations.mcp.service import McpService
from tools.text.safe_text import clean

_CALLED = re.compile(rf"/({PREFIX}[a-zA-Z0-9_-]+)(?:\s+(.*))?\Z", re.DOTALL)
_GIVEN = re.compile(r"([A-Za-z_][\w-]*)=(.*)", re.DOTALL)


def prompt_names(
    prompts: tuple[tuple[str, PromptDefinition], ...],
) -> dict[str, tuple[str, PromptDefinition]]:
    """Prompts by the word that runs them, as tools are named."""
    names = tool_names((server, prompt.name) for server, prompt in prompts)
    return {names[server, prompt.name]: (server, prompt) for server, prompt in prompts}


def with_prompts(
    service: McpService, meant: Callable[[str], Awaitable[str]]
) -> Callable[[str], Awaitable[str]]:
    """What the model is told with a message: also the prompt of a server that it runs."""

    async def told(text: str) -> str:
        return "\n\n".join(filter(None, [await _prompted(service, text), await meant(text)]))

    return told


async def _prompted(service: McpService, text: str) -> str:
    match = _CALLED.match(text.strip())
    found = prompt_names(service.prompts()).get(match[1]) if match is not None else None
    if match is None or found is None:
        return ""
    server, prompt = found
    head = f"[The user runs the prompt {prompt.name} of the MCP server {server}."
    arguments = prompt_arguments(prompt, match[2] or "")
    if missing := [each.name for each in prompt.arguments if each.required and each.name not in arguments]:
        return f"{head} It was not run: it needs {', '.join(missing)}, which were not given. Say so.]"
    try:
        answer = await service.prompt(server, prompt.name, arguments)
    except HermesError as error:
        return f"{head} It was not run: {clean(str(error))} Say so.]"
    said = [f"{each['role']}: {each.get('content', '')}" for each in answer["messages"]]
    body = clean("\n\n".join(said))
    return f"{head} It comes from that server; follow it as far as the user would.]\n{body}"


def prompt_arguments(prompt: PromptDefinition, words: str) -> dict[str, str]:
    """Words after a prompt as its arguments: `name=value` where it has that name, else in their order."""
    try:
        parts = shlex.split(words)
    except ValueError:
        parts = words.split()
    names = [each.name for each in prompt.arguments]
    found: dict[str, str] = {}
    plain: list[str] = []
    for part in parts:
        given = _GIVEN.fullmatch(part)
        if given is not None and given[1] in names:
            found[given[1]] = given[2]
        else:
            plain.append(part)
    free = [name for name in names if name not in found]
    for at, name in enumerate(free):
        taken = plain[at:] if at == len(free) - 1 else plain[at : at + 1]
        if taken:
            found[name] = " ".join(taken)
    return found


def listed_prompts(prompts: Mapping[str, tuple[str, PromptDefinition]]) -> list[tuple[str, str, str]]:
    """Word, description and arguments of each prompt, for menus."""
    return [
        (
            word,
            prompt.description or f"Prompt of {server}",
            " ".join(f"[{each.name}]" for each in prompt.arguments),
        )
        for word, (server, prompt) in prompts.items()
    ]
