"""The `ctx` object of `register(ctx)`, which records what the plugin offers."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable, Mapping
from datetime import date, time
from decimal import Decimal
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

_DEEPEST = 60
"""The maximum nesting depth of a result."""


class RegistrationError(TypeError):
    """A registration is invalid. The message is a sentence."""


class Context:
    """The record of a plugin's registrations, with the handler for each entry.

    `root` is the plugin's folder, `data` the folder for its own data, and `workspace` the folder in which the
    session works.
    """

    def __init__(self, name: str, root: str, data: str, workspace: str) -> None:
        self.name = name
        self.root = Path(root)
        self.data = Path(data)
        self.workspace = Path(workspace)
        self._entries: list[dict[str, Any]] = []
        self._handlers: dict[tuple[str, str], list[Callable[..., Any]]] = {}

    def register_tool(
        self,
        name: str,
        description: str,
        parameters: dict[str, Any],
        handler: Callable[[dict[str, Any]], Any],
    ) -> None:
        """Register a tool for the model. `parameters` is a JSON schema, `handler` gets the arguments."""
        try:
            json.dumps(parameters)
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"The parameters of the tool {name} are not JSON: {error}.") from None
        self._take("tool", name, handler, description=description, parameters=parameters)

    def register_command(self, name: str, description: str, handler: Callable[[str], Any]) -> None:
        """Register a slash command. `handler` receives the text typed after its name; its result is shown."""
        self._take("command", name, handler, description=description)

    def register_cli_command(self, name: str, description: str, handler: Callable[[list[str]], Any]) -> None:
        """Register a command `hermes NAME`.

        `handler` receives the arguments and returns a text or an exit code.
        """
        self._take("cli_command", name, handler, description=description)

    def register_hook(self, event: str, handler: Callable[[dict[str, Any]], Any]) -> None:
        """Register a handler for an event. It returns None or an answer as described in docs/hooks.md."""
        self._take("hook", event, handler)

    def register_prompt_section(self, name: str, text: str) -> None:
        """Register a section of the system prompt."""
        self._take("prompt_section", name, None, text=str(text))

    def register_skill(self, path: str | Path) -> None:
        """Register the folder of a skill, given relative to the plugin's folder."""
        self._take("skill", self._below(path), None)

    def register_skin(self, path: str | Path) -> None:
        """Register the file of a skin, given relative to the plugin's folder."""
        self._take("skin", self._below(path), None)

    def register_provider(self, kind: str, name: str, handler: Callable[[dict[str, Any]], Any]) -> None:
        """Register a service that Hermes can ask: `search`, `memory`, `image`, `speech` or `transcribe`.

        docs/plugins.md describes for each kind what `handler` receives and returns.
        """
        self._take("provider", name, handler, provider=str(kind))

    def entries(self) -> list[dict[str, Any]]:
        """Return all registrations in order."""
        return self._entries

    async def call(self, kind: str, name: str, given: Any) -> Any:
        """Call the handlers of a registration with `given` and return their result.

        The answers of several hooks are combined. Raises `KeyError` without a handler, and whatever a handler
        raises.
        """
        answer: Any = None
        for handler in self._handlers[kind, name]:
            said = as_data(await run(handler, given))
            if kind != "hook":
                return said
            answer = _join_answers(answer, said)
        return answer

    def _take(self, kind: str, name: str, handler: Callable[..., Any] | None, **about: Any) -> None:
        if handler is not None and not callable(handler):
            raise RegistrationError(f"The handler of {kind} {name} cannot be called.")
        name = str(name)
        entry = {"kind": kind, "name": name, **about}
        key = f"{about['provider']} {name}" if kind == "provider" else name
        if handler is not None:
            known = self._handlers.setdefault((kind, key), [])
            if not known or kind == "hook":
                known.append(handler)
        if kind != "hook" or len(self._handlers[kind, key]) == 1:
            self._entries.append(entry)

    def _below(self, path: str | Path) -> str:
        given = Path(path)
        return str(given.relative_to(self.root) if given.is_absolute() else given)


_STRICTNESS = {"allow": 0, "ask": 1, "block": 2}


def _join_answers(first: Any, second: Any) -> Any:
    """Return two answers of hooks combined: the stricter decision, and the later arguments and result."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return first if second is None else second
    is_stricter = _STRICTNESS.get(str(second.get("decision")), 0) >= _STRICTNESS.get(
        str(first.get("decision")), 0
    )
    both = first | second
    if not is_stricter:
        both |= {key: first[key] for key in ("decision", "reason") if key in first}
    return both


def as_data(value: Any, depth: int = 0) -> Any:
    """Return a value as JSON data.

    A value without a JSON form is replaced by a note, never by `<object …>`.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if depth >= _DEEPEST:
        return "[left out: nested too deep, or within itself]"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key): as_data(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_data(each, depth + 1) for each in value]
    if isinstance(value, PurePath | date | time | Decimal | UUID):
        return str(value)
    return f"[left out: a value of the type {_type_name(value)}, which JSON cannot hold]"


def _key(key: Any) -> str:
    plain = isinstance(key, str | int | float | bool | PurePath | date | UUID) or key is None
    return str(key) if plain else f"[a key of the type {_type_name(key)}]"


def _type_name(value: Any) -> str:
    return (value if isinstance(value, type) else type(value)).__qualname__


async def run(handler: Callable[..., Any], given: Any) -> Any:
    """Call a handler and return its result.

    Handlers that are not async run in a thread, so that calls can overlap.
    """
    import asyncio

    if inspect.iscoroutinefunction(handler):
        return await handler(given)
    result = await asyncio.to_thread(handler, given)
    return await result if inspect.isawaitable(result) else result
