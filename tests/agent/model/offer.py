"""A few tools on offer, for tests of codecs."""

from __future__ import annotations

from typing import Any

from agent.core.messages import Message
from agent.model.codecs.codec import Codec
from agent.model.formats.chat import FORMAT as CHAT
from agent.model.protocol import ToolSpec
from agent.model.wire_format import Wire

TEXT = {"type": "string"}


def tool(name: str, *required: str, **properties: Any) -> ToolSpec:
    return ToolSpec(
        name, f"The tool {name}.", {"type": "object", "properties": properties, "required": list(required)}
    )


TOOLS = (
    tool("terminal", "command", command=TEXT, timeout={"type": "integer"}),
    tool("read_file", "path", path=TEXT, offset={"type": "integer"}),
    tool("write_file", "path", "content", path=TEXT, content=TEXT),
    tool("search", "pattern", pattern=TEXT),
    tool("todo_write", "todos", todos={"type": "array", "items": {"type": "object"}}),
    tool("todo_read"),
)


def chat_form(codec: Codec, message: Message) -> bytes:
    """A message of a tool mode in the form of chat completions."""
    (frame,) = Wire(CHAT, codec).framer().frames(message)
    return frame.data
