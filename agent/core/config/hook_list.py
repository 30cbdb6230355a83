"""Declared hooks: the command, its event, and the tool calls it applies to."""

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
"""The number of characters of a reason that are kept."""
FIELDS = ("decision", "reason", "arguments", "result")


class HookError(HermesError):
    """Raised if a hook failed. The message names the hook, the cause and the fix."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer of one hook, or the combined answer of several hooks."""

    decision: HookDecision = "allow"
    reason: str = ""
    arguments: dict[str, Any] | None = None
    """Arguments that replace those of the tool call; they pass the permission check like any others."""
    result: Any = None
    """A value that replaces the result of the tool call."""


def parse_answer(output: bytes) -> HookAnswer:
    """Parse a hook's standard output; empty output means allow. Raises `HookError` if it is invalid."""
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
    """Return the answer in parsed JSON data. Raises `HookError` if the data is not a valid answer."""
    if not isinstance(data, dict):
        raise HookError("its answer is not an object")
    if data and not data.keys() & {"decision", "reason", "arguments", "result"}:
        raise HookError("its answer has none of `decision`, `reason`, `arguments` and `result`")
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
    """Combine two answers: the stricter decision counts, with its reason, as do the later arguments and the
    later result.
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
    """A shell command that is run for one kind of event."""

    event: HookEvent
    command: str
    """The command line for `sh -c`."""
    match: str = "*"
    """The tools the hook applies to: name patterns with `*`, separated by `|`."""
    timeout: float = 5.0
    """Seconds within which the hook must answer."""
    required: bool = False
    """True if a call is refused when the hook fails."""
    project: str = ""
    """The folder of the project that declares the hook; empty if it is in the user's own settings."""

    @property
    def title(self) -> str:
        """The name for display."""
        return self.command

    @property
    def digest(self) -> str:
        """The digest to which consent is bound. It covers what is run, when, and for which project."""
        parts = [self.event, self.command, self.match, f"{self.timeout:g}", str(self.required)]
        parts += [self.project] if self.project else []
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def applies_to(self, tool: str) -> bool:
        """Return whether the hook applies to calls of a tool. It is True for an event without a tool."""
        if not tool:
            return True
        return any(fnmatchcase(tool, pattern.strip()) for pattern in self.match.split("|"))


class OtherHook(Protocol):
    """A hook that is not one of the user's own commands, such as one from a plugin."""

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

    def applies_to(self, tool: str) -> bool: ...

    async def answer(self, payload: Mapping[str, Any]) -> HookAnswer:
        """Return the hook's answer to an event. Raises `HookError`."""
        ...


AnyHook = Hook | OtherHook


def by_event(hooks: Sequence[AnyHook]) -> Mapping[HookEvent, tuple[AnyHook, ...]]:
    """Return the hooks grouped by event, each group in the order of the settings."""
    found: dict[HookEvent, tuple[AnyHook, ...]] = {}
    for hook in hooks:
        found[hook.event] = (*found.get(hook.event, ()), hook)
    return found
