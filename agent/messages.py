"""The conversation as the model sees it, independent of any provider."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asked for. `arguments` is JSON text, exactly as it will be sent back."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image that came with a user message; its bytes lie in the home under their hash.

    `name` and `mention` hold no control characters. `mention` is what stands for
    it in the message, such as `@shots/chart.png`; it may be empty.
    """

    name: str
    media_type: str
    size: int
    """Bytes."""
    sha256: str
    mention: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a message. `data` is empty until it is loaded, and when its file is gone."""

    attachment: Attachment
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request.

    `reasoning` is kept for display and export; it is not sent back unless the
    provider asks for it. `call_id` names the call a tool message answers, `name`
    (where known) its tool; only tool modes without ids send the name. Only user
    messages have `images`.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    reasoning: str = ""
    name: str = ""
    images: tuple[Image, ...] = ()
