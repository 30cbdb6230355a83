"""The wire of one model: the wire format of its provider together with its tool mode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.core.messages import Message
from agent.model.codecs.codec import Codec, Decoder
from agent.model.dialect import ANY, Dialect
from agent.model.protocol import Frame, Thinking, ToolSpec
from agent.model.tool_schemas import plain, sound
from agent.model.wire_format import Framer, WireFormat
from tools.text.words import shorten


@dataclass(frozen=True, slots=True)
class Wire:
    """A pair of format and tool mode; each of the two knows nothing of the other."""

    format: WireFormat
    mode: Codec

    def system(self, prompt: str, tools: Sequence[ToolSpec]) -> bytes:
        """The wire form of the system prompt, with what the mode says about calling tools."""
        return self.format.system(self.mode.system(prompt, tools))

    def tools(self, tools: Sequence[ToolSpec], dialect: Dialect = ANY) -> bytes:
        """The wire form of the tools; empty if the mode does not use the format's field for them."""
        return self.format.tools(offered(self.mode.offered(tools), dialect), dialect)

    def reply_schema(self, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
        """The JSON schema that binds the whole reply, or None."""
        return self.mode.reply_schema(tools)

    def framer(self, owner: str = "", head: bytes = b"", dialect: Dialect = ANY) -> Framer:
        """See `WireFormat.framer`; messages pass the mode first."""
        return _ModeFramer(self.mode, self.format.framer(owner, head, dialect))

    def decoder(self, tools: Sequence[ToolSpec]) -> Decoder:
        return self.mode.decoder(tools)


def offered(tools: Sequence[ToolSpec], dialect: Dialect) -> Sequence[ToolSpec]:
    """The tools with schemas as the model takes them, without those it refused as they are."""
    rules = dialect.tools
    if rules.without:
        tools = [tool for tool in tools if f"{tool.name}:{schema_digest(tool)}" not in rules.without]
    if rules.form != "any":
        made = plain if rules.form == "plain" else sound
        tools = [replace(tool, parameters=made(tool.parameters)) for tool in tools]
    if most := rules.longest:
        tools = [replace(tool, description=shorten(tool.description, most)) for tool in tools]
    return tools


def schema_digest(tool: ToolSpec) -> str:
    """What tells a tool that was refused from the same one with another schema."""
    return hashlib.sha256(json.dumps(tool.parameters, sort_keys=True).encode()).hexdigest()[:12]


class _ModeFramer:
    """Frames of messages as the tool mode rewrites them."""

    def __init__(self, mode: Codec, inner: Framer) -> None:
        self._mode = mode
        self._inner = inner

    def frames(self, message: Message) -> list[Frame]:
        return self._inner.frames(self._mode.rewritten(message))

    @property
    def digest(self) -> str:
        return self._inner.digest

    def may_think(self, wanted: Thinking | None) -> bool:
        return self._inner.may_think(wanted)
