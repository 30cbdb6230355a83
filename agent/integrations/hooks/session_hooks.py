"""The hooks of one session: asked before and after calls, and told what happens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.core.config.hook_list import AnyHook, Hook, HookAnswer, HookError, HookEvent, by_event, combined
from agent.events import (
    AgentEnded,
    AgentStarted,
    ApprovalAsked,
    Event,
    FilesChanged,
    Noticed,
    RequestResolved,
    RequestStarted,
    SessionOpened,
    ToolFinished,
    UsageChanged,
)
from agent.integrations.hooks.process import run_hook
from tools.text.safe_text import clean

log = logging.getLogger(__name__)

MOST_WAITING = 1_000
"""Events that wait for hooks that only hear; of more the newest are left out."""
_PATIENCE = 10.0
"""Seconds that the end of a session waits for hooks."""


class SessionHooks:
    """Runs the hooks of a session. Nothing here raises; a hook that fails is a notice."""

    def __init__(
        self,
        hooks: Sequence[AnyHook],
        session: str,
        workspace: Path,
        environment: Mapping[str, str],
        emit: Callable[[Event], None],
    ) -> None:
        """`environment` is what hooks get, without secrets."""
        self._hooks = by_event(hooks)
        self._session = session
        self._workspace = workspace
        self._environment = environment
        self._emit = emit
        self._waiting: asyncio.Queue[tuple[HookEvent, str, dict[str, Any]]] = asyncio.Queue(MOST_WAITING)
        self._telling: asyncio.Task[None] | None = None
        self._lost = 0
        self._failed: set[str] = set()

    def requires(self, event: HookEvent, tool: str = "") -> bool:
        """Whether a hook has to be heard before anything goes on."""
        return any(hook.required and hook.hears_of(tool) for hook in self._hooks.get(event, ()))

    async def before_tool(self, tool: str, arguments: Mapping[str, Any]) -> HookAnswer:
        """What hooks say of a call that is about to be made."""
        return await self._ask("before_tool", tool, {"arguments": dict(arguments)})

    async def transform_result(self, tool: str, arguments: Mapping[str, Any], result: Any) -> HookAnswer:
        """What hooks make of the result of a call."""
        return await self._ask("transform_result", tool, {"arguments": dict(arguments), "result": result})

    async def before_response(self, text: str) -> HookAnswer:
        """What hooks say of an answer that ends a turn."""
        return await self._ask("before_response", "", {"result": text})

    def tell(self, event: HookEvent, tool: str = "", **fields: Any) -> None:
        """Let hooks hear of something, in order and in the background."""
        if not any(hook.hears_of(tool) for hook in self._hooks.get(event, ())):
            return
        try:
            self._waiting.put_nowait((event, tool, fields))
        except asyncio.QueueFull:
            self._lost += 1
            return
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell_all(), name="hooks")

    def hear(self, event: Event) -> None:
        """Listen to the stream: what hooks only hear of is read off it."""
        match event:
            case SessionOpened():
                self.tell("session_start", model=event.model)
            case RequestStarted():
                self.tell("before_request", model=event.model, agent=event.agent)
            case UsageChanged():
                self.tell("after_request", result=event.to_json()["request"], agent=event.agent)
            case ToolFinished():
                self.tell(
                    "after_tool",
                    event.tool,
                    call=event.call,
                    result=event.result,
                    outcome=event.outcome,
                    agent=event.agent,
                )
            case AgentStarted():
                self.tell("subagent_start", agent=event.agent, name=event.name, goal=event.goal)
            case AgentEnded():
                self.tell("subagent_stop", agent=event.agent, outcome=event.outcome, result=event.summary)
            case ApprovalAsked():
                self.tell("approval_asked", event.tool, headline=event.headline, request=event.id)
            case RequestResolved():
                self.tell("approval_answered", request=event.id, outcome=event.outcome)
            case FilesChanged():
                self.tell("file_changed", by=event.by, paths=[file.path for file in event.files])
            case Noticed(kind="compaction"):
                self.tell("compaction", result=event.text)
            case _:
                pass

    async def close(self) -> None:
        """Tell of the end, and wait a while until all hooks have heard."""
        self.tell("session_end")
        if (telling := self._telling) is not None:
            await asyncio.wait({telling}, timeout=_PATIENCE)
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _tell_all(self) -> None:
        while True:
            try:
                event, tool, fields = self._waiting.get_nowait()
            except asyncio.QueueEmpty:
                self._telling = None
                return
            await self._ask(event, tool, fields)

    async def _ask(self, event: HookEvent, tool: str, fields: dict[str, Any]) -> HookAnswer:
        """Ask each hook in turn; a later one sees what an earlier one rewrote."""
        answer = HookAnswer()
        for hook in self._hooks.get(event, ()):
            if not hook.hears_of(tool):
                continue
            payload = {"event": event, "session": self._session, "workspace": str(self._workspace), **fields}
            if tool:
                payload["tool"] = tool
            try:
                said = await self._said(hook, payload)
            except Exception as error:
                cause = str(error) if isinstance(error, HookError) else f"{type(error).__name__}: {error}"
                if not isinstance(error, HookError):
                    log.exception("the hook %s failed", hook.title)
                self._complain(hook, clean(cause))
                if hook.required:
                    return HookAnswer("block", f"The hook `{hook.title}` is required and failed: {cause}.")
                continue
            answer = combined(answer, said)
            if answer.decision == "block":
                return answer
            if said.arguments is not None:
                fields = {**fields, "arguments": said.arguments}
            if said.result is not None:
                fields = {**fields, "result": said.result}
        return answer

    async def _said(self, hook: AnyHook, payload: dict[str, Any]) -> HookAnswer:
        """The answer of one hook. Raises `HookError`."""
        if isinstance(hook, Hook):
            return await run_hook(hook, payload, self._workspace, self._environment)
        return await hook.answer(payload)

    def _complain(self, hook: AnyHook, cause: str) -> None:
        """Say once in a session what is wrong with a hook."""
        if hook.digest in self._failed:
            return
        self._failed.add(hook.digest)
        text = f"The hook `{hook.title[:200]}` for {hook.event} failed: {cause}; it is told once."
        self._emit(Noticed(kind="warning", text=text))
