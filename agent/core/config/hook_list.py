"""Declared hooks: the command, its event, and the calls it applies to. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, Protocol, cast, get_args

from agent.errors import HermesError
from tools.text.safe_text import clean

HookDecision = Literal["allow", "ask", "block"]
_STRICTNESS: dict[HookDecision, int] = {"allow": 0, "ask": 1, "block": 2}
LONGEST_REASON = 1_000
"""Characters of a reason that are kept."""
FIELDS = ("decision", "reason", "arguments", "result")


class HookError(HermesError):
    """Raised if a hook failed. The message names the hook, the cause and the fix."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer of one hook, or the combined answer of several hooks."""

    decision: HookDecision = "allow"
    reason: str = ""
    arguments: dict[str, Any] | None = None
    """Replaces the call's arguments; the new ones pass the gate like any others."""
    result: Any = None
    """Replaces the call's result."""


def parse_answer(output: bytes) -> HookAnswer:
    """Parse the answer on the standard output of a hook. Raises `HookError` for anything else."""
    text = output.decode("utf-8", "replace").strip()
    if not text:
        return HookAnswer()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise HookError("its output is not JSON") from None
    if not isinstance(data, dict):
        raise HookError("its output is not a JSON object")
    return answer_of(data)


def answer_of(data: Any) -> HookAnswer:
    """Return the answer in parsed data. Raises `HookError` for anything else."""
    if not isinstance(data, dict):
        raise HookError("its answer is not an object")
    decision = data.get("decision", "allow")
    if decision not in _STRICTNESS:
        raise HookError("its `decision` is not allow, ask or block")
    reason, arguments = data.get("reason", ""), data.get("arguments")
    if not isinstance(reason, str):
        raise HookError("its `reason` is not text")
    if arguments is not None and not isinstance(arguments, dict):
        raise HookError("its `arguments` are not an object")
    return HookAnswer(
        cast("HookDecision", decision), clean(reason)[:LONGEST_REASON], arguments, data.get("result")
    )


def combine(first: HookAnswer, second: HookAnswer) -> HookAnswer:
    """Combine two answers: the stricter decision counts, with its reason, and the later arguments and
    result.
    """
    stricter = second if _STRICTNESS[second.decision] > _STRICTNESS[first.decision] else first
    return HookAnswer(
        stricter.decision,
        stricter.reason,
        first.arguments if second.arguments is None else second.arguments,
        first.result if second.result is None else second.result,
    )


HookEvent = Literal[
    "session_start",
    "session_end",
    "session_reset",
    "before_request",
    "after_request",
    "before_tool",
    "after_tool",
    "before_response",
    "transform_result",
    "compaction",
    "subagent_start",
    "subagent_stop",
    "approval_asked",
    "approval_answered",
    "file_changed",
]
HOOK_EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)


@dataclass(frozen=True, slots=True)
class Hook:
    """One command that receives one kind of event."""

    event: HookEvent
    command: str
    """A line for `sh -c`."""
    match: str = "*"
    """Names of tools it applies to: patterns with `*`, separated by `|`."""
    timeout: float = 5.0
    """Seconds it has for an answer."""
    required: bool = False
    """True if a call is refused when the hook fails."""
    project: str = ""
    """The folder of the project it comes from; empty for the person's own settings."""

    @property
    def title(self) -> str:
        """The name for display."""
        return self.command

    @property
    def digest(self) -> str:
        """The digest to which consent is bound. It covers everything that decides what is run, and when."""
        parts = [self.event, self.command, self.match, f"{self.timeout:g}", str(self.required)]
        parts += [self.project] if self.project else []
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def hears_of(self, tool: str) -> bool:
        """Return whether the hook applies to calls of a tool. It is True for events without a tool."""
        if not tool:
            return True
        return any(fnmatchcase(tool, pattern.strip()) for pattern in self.match.split("|"))


class OtherHook(Protocol):
    """A hook that is not one of the person's own commands, such as a plugin's."""

    @property
    def event(self) -> HookEvent: ...

    @property
    def title(self) -> str:
        """The name for display."""
        ...

    @property
    def required(self) -> bool: ...

    @property
    def digest(self) -> str:
        """The digest that identifies the hook."""
        ...

    def hears_of(self, tool: str) -> bool: ...

    async def answer(self, payload: Mapping[str, Any]) -> HookAnswer:
        """Return the hook's answer to an event. Raises `HookError`."""
        ...


AnyHook = Hook | OtherHook


def by_event(hooks: Sequence[AnyHook]) -> Mapping[HookEvent, tuple[AnyHook, ...]]:
    """Return the hooks by event, in the order of the settings."""
    found: dict[HookEvent, tuple[AnyHook, ...]] = {}
    for hook in hooks:
        found[hook.event] = (*found.get(hook.event, ()), hook)
    return found
