"""Conversations drawn from a seed, with models that insist on what `tests.support.demands` lists."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from agent.core.attachments import AttachmentStore
from agent.core.messages import ToolCall
from agent.core.store.store import Store
from agent.events import Event, PrefixBroken
from agent.knowledge.context.message_history import sealed_data
from agent.model.codecs import codec_for
from agent.model.dialect_book import DialectBook
from agent.model.format_registry import FORMATS
from agent.model.protocol import STANDARD, Thinking, ToolSpec
from agent.model.transport.client import FormatClient
from agent.model.transport.reply import ModelReply, ModelRoute
from agent.model.transport.waits import RetryPolicy
from agent.model.usage import Meter
from agent.model.wire_format import Wire
from agent.session.conversation.live_session import LiveSession
from agent.session.turns.dialogue import Dialogue, RequestSettings
from agent.session.turns.room import RoomRules
from agent.session.turns.turn_helpers import TurnHelpers
from tests.agent.model.offer import TOOLS
from tests.support.delivery import Recorded
from tests.support.demands import DEMANDS, Demand
from tests.support.images import png, write
from tests.support.messages_form import MessagesForm
from tests.support.model_server import ModelServer
from tests.support.replies import Call, Reply
from tests.support.responses_form import ResponsesForm
from tests.support.wire_rules import Rules

FIELDS = frozenset({"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "name"})
FREE = Rules(message_fields=FIELDS, body_fields=frozenset({"thinking"}))
OF_DIALECTS = {
    "mistral": ("mistral: by turns", "mistral: after a tool", "mistral: ids"),
    "deepseek": ("deepseek: thoughts", "deepseek: limit", "deepseek: images"),
    "moonshot": ("moonshot: thoughts", "moonshot: text"),
    "zhipu": ("zhipu: anything",),
    "dashscope": ("dashscope: text", "dashscope: limit"),
    "xai": ("xai: effort", "xai: text"),
    "groq": ("groq: thoughts", "groq: images"),
    "together": ("vllm: template",),
    "fireworks": ("fireworks: fields", "fireworks: keywords"),
    "cerebras": ("cerebras: thoughts",),
    "nvidia": ("nim: text", "llama: one call"),
    "huggingface": ("content or calls",),
    "openrouter": ("openai: long ids", "anthropic: keys"),
    "openai": ("openai: limit", "openai: temperature", "openai: descriptions", "openai: few tools"),
    "azure": ("openai: effort with tools",),
    "litellm": ("bedrock: start", "anthropic: text"),
    "bedrock": ("bedrock: start", "bedrock: text", "bedrock: ids"),
    "gemini": ("gemini: call turn", "gemini: keywords", "gemini: objects"),
    "ollama": ("ollama: text",),
    "lmstudio": ("lm studio: template", "lm studio: text"),
    "llamacpp": ("llama.cpp: keywords", "gemma: system"),
    "vllm": ("vllm: text", "vllm: images"),
    "sglang": ("vllm: template",),
}
"""What the strict server of each dialect insists on."""
ODD: tuple[ToolSpec, ...] = tuple(
    ToolSpec(f"mcp__odd__t{at}", "Does it. " * (1 if at else 150), schema)
    for at, schema in enumerate(
        (
            {"type": "object", "properties": {"a b": {"type": "array"}, "c": {"type": None}}},
            {
                "type": "object",
                "properties": {"a": {"$ref": "#/$defs/A"}},
                "$defs": {"A": {"type": "string"}},
            },
            {"properties": {"a": {"anyOf": [{"type": "string", "pattern": "x"}, {"type": "null"}]}}},
            {"type": "object", "properties": {}, "additionalProperties": False, "required": ["ghost"]},
        )
    )
)
TOPICS = ("thoughts", "ids", "text|content|anything")
IDS = ("", "call_0", "call:1|x y", "functions.read_file:0", "x" * 60)


@dataclass
class DialectWalk:
    """One session. `models` are those it may ask, each with a dialect and what its server insists on."""

    folder: Path
    seed: int
    models: dict[str, tuple[str, tuple[Demand, ...]]]
    refused: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    most: int = 0
    """Refusals of one request at most."""

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)

    async def run(self, turns: int) -> None:
        """So many turns, each with a model drawn by lot. Raises what a request fails with."""
        forms = {"/v1/messages": MessagesForm(), "/v1/responses": ResponsesForm()}
        async with (
            ModelServer(self._answer, rules=FREE, forms=forms) as self.server,
            await Store.open(self.folder / "state.db") as store,
        ):
            book = DialectBook(self.folder)
            self._routes = {name: self._route(name, book) for name in self.models}
            record = await store.create_session(workspace="w", model="m")
            self.session = LiveSession(store, record, [], self.events.append)
            await self.session.add("system", "You are Hermes, and patient.", {})
            try:
                for turn in range(turns):
                    await self._turn(turn)
            finally:
                for route in self._routes.values():
                    await route.client.aclose()

    def undeclared(self) -> list[str]:
        return [each.reason for each in self.events if isinstance(each, PrefixBroken) and not each.declared]

    def _route(self, name: str, book: DialectBook) -> ModelRoute:
        dialect = self.models[name][0]
        format = {"anthropic": "anthropic", "openai-responses": "responses"}.get(dialect, "chat")
        chosen = "openai" if dialect == "openai-responses" else dialect
        spoken = book.of(name, self.server.base_url, name, chosen=chosen)
        wire = Wire(FORMATS.get(format), codec_for("native"))
        client = FormatClient(wire.format, self.server.base_url, "k", spoken=lambda _: spoken)
        tools = (*TOOLS, *ODD)
        return ModelRoute(name=name, model=name, client=client, wire=wire, tools=tools, spoken=spoken)

    def _dialogue(self, name: str) -> Dialogue:
        thinking: Thinking | None = self.chance.choice((None, "high"))
        return Dialogue(
            self.session,
            [self._routes[name]],
            STANDARD,
            Meter(),
            AttachmentStore(self.folder / "attachments"),
            RequestSettings(
                policy=RetryPolicy(retries=0),
                thinking=lambda: thinking,
                temperature=self.chance.choice((None, 0.3)),
                max_output=self.chance.choice((None, 4_096)),
            ),
            RoomRules(threshold=0.85),
            TurnHelpers(self.events.append),
        )

    async def _turn(self, turn: int) -> None:
        chance = self.chance
        name = chance.choice(list(self.models))
        dialogue = self._dialogue(name)
        images = []
        if chance.random() < 0.4:
            shot = write(self.folder / f"{turn}.png", png(padding=turn))
            images = [AttachmentStore(self.folder / "attachments").take(shot)]
        await self.session.add_user(chance.choice(("Go on.", "What is in ü.txt?")), attachments=images)
        for step in range(1, chance.randint(2, 5)):
            if chance.random() < 0.2:
                await self.session.add_user("And mind the gap.", "steer")
            if chance.random() < 0.15:
                await self.session.add("notice", "A job has ended.", {"kind": "note", "to_model": True})
            before = len(self.refused)
            reply = await dialogue.next_reply(step)
            self.most = max(self.most, len(self.refused) - before)
            if not await self._keep(reply):
                return

    async def _keep(self, reply: ModelReply) -> bool:
        """Keep a reply with its results; whether the turn continues."""
        chance = self.chance
        data: dict[str, Any] = {"model": reply.route, "finish": reply.finish}
        if reply.sealed is not None:
            data["sealed"] = sealed_data(reply.sealed)
        if chance.random() < 0.07:
            cut = {"state": "interrupted", "model": reply.route}
            await self.session.add_assistant(reply.text or "I was", reply.reasoning, (), cut)
            return False
        node = await self.session.add_assistant(reply.text, reply.reasoning, reply.calls, data)
        for call in reply.calls:
            await self.session.start_call(node, call)
        for call in reply.calls:
            if chance.random() < 0.95:
                await self._finish(call)
        # Out of turns: results that nobody goes on from.
        return bool(reply.calls) and chance.random() > 0.1

    async def _finish(self, call: ToolCall) -> None:
        result = json.dumps({"content": self.chance.choice(("", "one\ntwo"))})
        await self.session.finish_call(call, result, {"outcome": "done"})

    def _answer(self, request: Recorded) -> Reply:
        name = request.body["model"]
        if request.path.endswith("/completions"):
            for demand in self.models[name][1]:
                if said := demand.check(request.body):
                    self.refused.append(f"{name}: {said}")
                    return Reply(
                        status=demand.status, content_type="application/json", body=demand.error(said)
                    )
        chance = self.chance
        count = chance.choice((0, 1, 1, 2))
        made = tuple(
            Call(
                chance.choice(("terminal", "mcp__odd__t1")),
                '{"command": "ls"}',
                chance.choice(IDS) if at == 0 and request.path.endswith("/completions") else "",
            )
            for at in range(count)
        )
        text = chance.choice(("", "Looking.")) if made else chance.choice(("Done.", "It is so."))
        return Reply(text=text, calls=made, reasoning=chance.choice(("", "Hm, let me think.")))


def draw_models(seed: int, named: Sequence[str]) -> dict[str, tuple[str, tuple[Demand, ...]]]:
    """Three models of known dialects and two of unknown ones, with one to three demands each."""
    chance = Random(seed)
    by_name = {each.name: each for each in DEMANDS}
    models: dict[str, tuple[str, tuple[Demand, ...]]] = {}
    for dialect in chance.sample(list(named), 3):
        models[f"m-{dialect}"] = (dialect, tuple(by_name[each] for each in OF_DIALECTS.get(dialect, ())))
    for at in range(2):
        # Two demands on the same thing may contradict each other.
        wanted = chance.sample(DEMANDS, chance.randint(1, 2))
        while any(sum(re.search(topic, each.name) is not None for each in wanted) > 1 for topic in TOPICS):
            wanted = chance.sample(DEMANDS, 2)
        models[f"u{at}"] = ("default", tuple(wanted))
    return models
