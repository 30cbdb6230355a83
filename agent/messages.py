"""The conversation as the model sees it, independent of any provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asked for. `arguments` is JSON text, exactly as it will be sent back."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request.

    `reasoning` is kept for display and export; it is not sent back unless the
    provider asks for it. `call_id` names the call a tool message answers, `name`
    (where known) its tool; only tool modes without ids send the name.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    reasoning: str = ""
    name: str = ""
