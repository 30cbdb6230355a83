"""The examples of every table hold: history -> body, or refusal -> the next body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agent.core.messages import Message, ToolCall
from agent.model.codecs import codec_for
from agent.model.dialect import Dialect, load, names
from agent.model.dialect_book import SpokenDialect
from agent.model.format_registry import FORMATS
from agent.model.protocol import ModelRequest, RequestTrial, ToolSpec
from agent.model.transport.client import FormatClient
from agent.model.wire_format import Wire
from tests.support.delivery import Recorded
from tests.support.messages_form import MessagesForm
from tests.support.model_server import ModelServer, Reply, say

ME = "here/m"
CASES = [
    pytest.param(name, example, id=f"{name}: {example['name']}")
    for name in names()
    for example in load(name).examples
]


def message(row: Mapping[str, Any]) -> Message:
    if "user" in row:
        return Message("user", row["user"])
    if "result" in row:
        return Message("tool", row["result"], call_id=row["of"])
    calls = tuple(ToolCall(each["id"], each["name"], each["arguments"]) for each in row.get("calls", ()))
    return Message(
        "assistant", row["assistant"], calls, reasoning=row.get("thoughts", ""), model=row.get("model", ME)
    )


def holds(wanted: Any, found: Any) -> bool:
    """Whether what was sent has all that is wanted; a text between slashes is an expression."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(holds(each, found.get(key)) for key, each in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(wanted) == len(found) and all(map(holds, wanted, found))
    if isinstance(wanted, str) and len(wanted) > 2 and wanted[0] == wanted[-1] == "/":
        return isinstance(found, str) and re.fullmatch(wanted[1:-1], found) is not None
    return bool(wanted == found)


def made(example: Mapping[str, Any], dialect: Dialect, wire: Wire) -> ModelRequest:
    tools = [ToolSpec(each["name"], "x", each["parameters"]) for each in example.get("tools", ())]
    framer = wire.framer(ME, b"", dialect)
    frames = tuple(frame for row in example["history"] for frame in framer.frames(message(row)))
    return ModelRequest(
        model="m",
        frames=frames,
        tools=wire.tools(tools, dialect),
        max_output=example.get("max_output"),
        temperature=example.get("temperature"),
        thinking=example.get("thinking"),
    )


@pytest.mark.sample(8)
@pytest.mark.parametrize(("name", "example"), CASES)
async def test_an_example_of_a_table_holds(name: str, example: Mapping[str, Any]) -> None:
    wire = Wire(FORMATS.get(example.get("format", "chat")), codec_for("native"))
    refusal = example.get("refusal")

    def answer(_: Recorded) -> Reply:
        if refusal is None or len(server.requests) > 1:
            return say("hi")
        return Reply(
            status=refusal["status"],
            content_type="application/json",
            body=json.dumps(refusal["body"]).encode(),
        )

    async with ModelServer(answer, forms={"/v1/messages": MessagesForm()}) as server:
        server._forms = {path: Open(form) for path, form in server._forms.items()}
        spoken = SpokenDialect(load(name))
        client = FormatClient(wire.format, server.base_url, "k", spoken=lambda _: spoken)

        async def rebuild(_: ModelRequest, dialect: Dialect) -> ModelRequest:
            return made(example, dialect, wire)

        request = replace(made(example, spoken.current, wire), trial=RequestTrial(rebuild=rebuild))
        try:
            async for _ in client.stream(request):
                pass
        except Exception as error:
            # Whoever reads the reply has to ask again, with calls in the text.
            assert getattr(error, "no_tools", False) and "tools" in example["without"]
            return
        finally:
            await client.aclose()
        sent = server.requests[-1].body
        assert len(server.requests) == 1 + (refusal is not None)
        assert holds(example.get("body", {}), sent), sent
        assert not set(example.get("without", ())) & sent.keys()


class Open:
    """A form of a server that takes every request."""

    def __init__(self, form: Any) -> None:
        self.refusal, self.body = form.refusal, form.body

    def check(self, request: Recorded) -> None:
        pass


def test_every_table_has_a_source_and_an_example() -> None:
    lacking = [name for name in names() if not load(name).examples or not load(name).source]
    assert lacking == []
