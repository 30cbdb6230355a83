"""Episodes: a task that a trainer works on in place of a model, with the real tools behind the real gate.

The engine asks a model at an address of ours; its request becomes an observation, the next action becomes
the answer. So an episode is a session like any other, with a workspace, a budget and checks.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from agent.automation.batch.attempt import AssignedTask, Conditions, attempt
from agent.automation.batch.results import TaskResult
from agent.automation.batch.task_file import NumberedTask
from agent.errors import HermesError

PROVIDER, MODEL = "policy", "policy"


class ActionError(HermesError):
    """An action that cannot be taken now, or says nothing that can be read."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What an action led to. `reward` is None before the end, and where a task has no checks."""

    observation: Mapping[str, Any]
    reward: float | None = None
    done: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"observation": dict(self.observation), "reward": self.reward, "done": self.done}


@dataclass(slots=True)
class _Asked:
    """A request of the engine that waits for an action."""

    body: Mapping[str, Any]
    answer: asyncio.Future[Mapping[str, Any]]


@dataclass(slots=True)
class EpisodeState:
    """Where an episode stands, as `/state` tells it."""

    episode_id: str = ""
    step_count: int = 0
    task: str = ""
    session: str = ""
    done: bool = False
    reward: float | None = None
    outcome: str = ""


@dataclass(slots=True)
class Episode:
    """One place to play: tasks one after the other. `number` is part of the address the engine asks at."""

    tasks: Sequence[NumberedTask]
    conditions: Conditions
    number: str = field(default_factory=lambda: secrets.token_hex(8))
    state: EpisodeState = field(default_factory=EpisodeState)
    _asked: asyncio.Queue[_Asked] = field(default_factory=asyncio.Queue)
    _open: _Asked | None = None
    _work: asyncio.Task[TaskResult] | None = None
    _shown: int = 0
    _next: int = 0

    async def reset(self, given: Mapping[str, Any]) -> Observed:
        """Begin a task: `task` by name, else by `seed`, else the next one. Raises `ActionError`."""
        task = self._chosen(given)
        await self.aclose()
        self._asked, self._open, self._shown = asyncio.Queue(), None, 0
        name = str(given.get("episode_id") or secrets.token_hex(8))[:255]
        self.state = EpisodeState(episode_id=name, task=task.shown)
        assignment = AssignedTask(
            task=replace(task.task, model=""),
            name=f"{task.task.key[:40]}-{secrets.token_hex(4)}",
            shown=task.shown,
            source=task.source,
        )
        self._work = asyncio.create_task(attempt(assignment, self.conditions), name="episode")
        return await self._observe()

    async def step(self, action: Mapping[str, Any]) -> Observed:
        """Answer the engine with an action; what it asks next, or how it ended. Raises `ActionError`."""
        if self._work is None or self.state.done:
            raise ActionError("There is no episode; reset first.")
        if self._open is None:
            raise ActionError("The last action is still worked on.")
        message = message_of(action)
        asked, self._open = self._open, None
        self.state.step_count += 1
        if not asked.answer.done():
            asked.answer.set_result(message)
        return await self._observe()

    async def ask(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The engine asks its model; the answer is the next action."""
        asked = _Asked(body, asyncio.get_running_loop().create_future())
        await self._asked.put(asked)
        return await asked.answer

    async def aclose(self) -> None:
        """End what is under way."""
        work, self._work = self._work, None
        if work is not None and not work.done():
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    def _chosen(self, given: Mapping[str, Any]) -> NumberedTask:
        if name := given.get("task"):
            found = next((each for each in self.tasks if each.shown == str(name)), None)
            if found is None:
                known = ", ".join(each.shown for each in self.tasks[:20])
                raise ActionError(f"There is no task {str(name)[:80]!r}; there are {known}.")
            return found
        seed = given.get("seed")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ActionError("`seed` is a whole number.")
        if seed is not None:
            return self.tasks[seed % len(self.tasks)]
        self._next += 1
        return self.tasks[(self._next - 1) % len(self.tasks)]

    async def _observe(self) -> Observed:
        """Wait until the engine asks again, or has ended."""
        assert self._work is not None
        waiting = asyncio.ensure_future(self._asked.get())
        try:
            await asyncio.wait({waiting, self._work}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                self._open = waiting.result()
                return Observed(self._shown_of(self._open.body))
        finally:
            waiting.cancel()
        return self._ended(self._work.result())

    def _shown_of(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What is new of a request; the tools with the first one."""
        messages = list(body.get("messages") or ())
        first = self._shown == 0
        whole = self._shown >= len(messages)
        observation: dict[str, Any] = {"messages": messages if whole else messages[self._shown :]}
        if whole:
            observation["whole"] = True
        if first:
            observation["tools"] = list(body.get("tools") or ())
        self._shown = len(messages)
        return observation

    def _ended(self, result: TaskResult) -> Observed:
        reward = reward_of(result)
        state = self.state
        state.done, state.reward, state.outcome, state.session = True, reward, result.outcome, result.session
        self.conditions.folder.note_ended(result)
        checks = [{"check": each.check, "passed": each.passed} for each in result.checks]
        told = {"messages": [], "outcome": result.outcome, "text": result.text, "checks": checks}
        return Observed(told | {"session": result.session, "error": result.error}, reward, True)


def reward_of(result: TaskResult) -> float | None:
    """The share of checks that hold; 0 for a task that was not done; None where nothing was checked."""
    if result.outcome != "done":
        return 0.0
    told = [each for each in result.checks if each.passed is not None]
    return sum(bool(each.passed) for each in told) / len(told) if told else None


def message_of(action: Mapping[str, Any]) -> dict[str, Any]:
    """The answer that an action means: `{message}` as chat completions know it, or `{text, tool_calls}`.

    Raises `ActionError`.
    """
    given = action.get("message")
    if not isinstance(given, Mapping):
        given = {"content": action.get("text"), "tool_calls": action.get("tool_calls")}
    if given.get("role", "assistant") != "assistant":
        raise ActionError("The `message` of an action has the role assistant.")
    text, calls = given.get("content"), given.get("tool_calls") or []
    if text is not None and not isinstance(text, str):
        raise ActionError("The text of an action is text.")
    if not isinstance(calls, list) or not all(isinstance(each, Mapping) for each in calls):
        raise ActionError("`tool_calls` of an action is a list of objects with `name` and `arguments`.")
    if text is None and not calls:
        raise ActionError("An action has `text`, `tool_calls`, or a `message` with these.")
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [_call(each) for each in calls]
    return {"message": message, "tokens": _tokens_of(action.get("tokens"))}


def _tokens_of(given: object) -> Mapping[str, Any]:
    """The ids of the tokens of an action; empty where it brings none. Raises `ActionError`."""
    if given is None:
        return {}
    told = given if isinstance(given, Mapping) else {}
    prompt, output, logprobs = told.get("prompt"), told.get("output"), told.get("logprobs")
    if (
        not isinstance(output, list)
        or not _numbers(output, int)
        or (prompt is not None and not _numbers(prompt, int))
        or (logprobs is not None and (not _numbers(logprobs) or len(logprobs) != len(output)))
    ):
        raise ActionError(
            "`tokens` of an action has `output`, a list of ids, and may have `prompt`, ids as well, and "
            "`logprobs`, a number for each id of `output`."
        )
    return told


def _numbers(given: Any, kind: Any = int | float) -> bool:
    return isinstance(given, list) and all(
        isinstance(each, kind) and not isinstance(each, bool) for each in given
    )


def _call(given: Mapping[str, Any]) -> dict[str, Any]:
    function = given.get("function")
    body = function if isinstance(function, Mapping) else given
    arguments = body.get("arguments", {})
    return {
        "id": str(given.get("id") or f"call_{secrets.token_hex(4)}"),
        "type": "function",
        "function": {
            "name": str(body.get("name", "")),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        },
    }


def completion_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as a chat completion, with the ids of its tokens where the action gave them."""
    message, tokens = answer["message"], answer["tokens"]
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
    }
    body: dict[str, Any] = {"object": "chat.completion", "model": MODEL, "choices": [choice]}
    if tokens.get("output") is not None:
        choice["token_ids"] = tokens["output"]
        body["prompt_token_ids"] = tokens.get("prompt")
        if tokens.get("logprobs") is not None:
            choice["logprobs"] = {"content": [{"logprob": each} for each in tokens["logprobs"]]}
        body["usage"] = {
            "prompt_tokens": len(tokens.get("prompt") or ()),
            "completion_tokens": len(tokens["output"]),
        }
    return body
