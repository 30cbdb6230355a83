"""Running a tool with the person's hooks before and after it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agent.core.config.hook_list import HookAnswer, HookEvent
from agent.events import Event, Noticed
from agent.session.turns.turn_helpers import TurnHelpers
from tools.context import ToolContext
from tools.effects import Effect, declare_effect
from tools.registry import Registry, call_tool
from tools.results import DeniedError
from tools.services.actions import Action


class CallHooks(Protocol):
    """What may have a say in calls and answers."""

    def requires(self, event: HookEvent, tool: str = "") -> bool:
        """Whether one of them has to be heard: without its answer nothing goes on."""
        ...

    async def before_tool(self, tool: str, arguments: Mapping[str, Any]) -> HookAnswer:
        """What is said of a call that is about to be made."""
        ...

    async def transform_result(self, tool: str, arguments: Mapping[str, Any], result: Any) -> HookAnswer:
        """What is made of the result of a call."""
        ...

    async def before_response(self, text: str) -> HookAnswer:
        """What is said of an answer that ends a turn."""
        ...


class NoHooks:
    """Where there are no hooks."""

    def requires(self, event: HookEvent, tool: str = "") -> bool:
        return False

    async def before_tool(self, tool: str, arguments: Mapping[str, Any]) -> HookAnswer:
        return HookAnswer()

    async def transform_result(self, tool: str, arguments: Mapping[str, Any], result: Any) -> HookAnswer:
        return HookAnswer()

    async def before_response(self, text: str) -> HookAnswer:
        return HookAnswer()


HOOKS = "Asking the hooks"
"""How a notice names that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldByHook(Action):
    """A call that a hook wants a person to be asked about."""

    reason: str = ""

    def headline(self) -> str:
        return f"call {self.tool}: {self.reason}" if self.reason else f"call {self.tool}"


HeldByHook.effect = declare_effect(
    Effect(
        name="hook",
        why="a hook of yours wants you to be asked",
        subject=lambda action: action.tool,
        example=lambda text: HeldByHook(tool=text),
    )
)


async def hooked_call(
    hooks: CallHooks,
    name: str,
    arguments: dict[str, Any],
    context: ToolContext,
    tools: Registry,
    emit: Callable[[Event], None],
    helpers: TurnHelpers,
) -> str:
    """Run a tool as its hooks let it; its result as JSON text.

    What a hook rewrote is judged by the gate like anything else, as the tool itself asks the gate.
    """
    asked = arguments
    unheard = unheard_answer(hooks, "before_tool", name)
    answer = await helpers.ask(HOOKS, lambda: hooks.before_tool(name, asked), unheard)
    if answer.decision == "block":
        return _blocked(answer.reason or "A hook does not allow this call.")
    if answer.arguments is not None and answer.arguments != arguments:
        arguments = answer.arguments
        emit(Noticed(kind="info", text=f"A hook changed the arguments of a call of {name}."))
    if answer.decision == "ask":
        try:
            await context.permit(HeldByHook(tool=name, reason=answer.reason))
        except DeniedError as error:
            return _blocked(str(error))
    text = await call_tool(name, arguments, context, tools)
    made, unheard = arguments, unheard_answer(hooks, "transform_result", name)
    said = await helpers.ask(HOOKS, lambda: hooks.transform_result(name, made, _parsed(text)), unheard)
    if said.decision == "block":
        return _blocked(said.reason or "A hook keeps this result back; the call was made.")
    return text if said.result is None else json.dumps(said.result, ensure_ascii=False)


def unheard_answer(hooks: CallHooks, event: HookEvent, tool: str = "") -> HookAnswer:
    """What counts where hooks cannot be asked: a no if one of them is required."""
    if not hooks.requires(event, tool):
        return HookAnswer()
    return HookAnswer("block", "A hook that is required could not be asked.")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _blocked(reason: str) -> str:
    return json.dumps({"error": reason, "status": "blocked"}, ensure_ascii=False)
