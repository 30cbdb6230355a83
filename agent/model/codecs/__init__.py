"""The tool modes, each with a codec: the form of calls, results and tools in requests and replies."""

from __future__ import annotations

from agent.model.codecs.codec import Codec
from agent.model.protocol import ToolMode


def codec_for(mode: ToolMode) -> Codec:
    """Return the codec of a tool mode."""
    match mode:
        case "native":
            from agent.model.codecs.native import NativeCodec

            return NativeCodec()
        case "text":
            from agent.model.codecs.text import TextCodec

            return TextCodec()
        case "schema":
            from agent.model.codecs.schema import SchemaCodec

            return SchemaCodec()
