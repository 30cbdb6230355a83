"""A conversation that changes model and format at random, also in the middle of a turn.

Everything is real but the models: the store, the session, the dialogue, the clients, the strict
server of all formats. What happens next is drawn from a seed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from agent.core.attachments import AttachmentStore
from agent.core.messages import Attachment
from agent.core.store.store import Store
from agent.errors import ModelError
from agent.events import Event, PrefixBroken
from agent.knowledge.context.compaction import plan_mask
from agent.knowledge.context.message_history import sealed_data
from agent.model.codecs import codec_for
from agent.model.format_registry import FORMATS
from agent.model.protocol import STANDARD, Delta, ModelClient, ModelRequest, Thinking, ToolMode
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
from tests.support.images import write
from tests.support.messages_form import MessagesForm
from tests.support.model_server import ModelServer
from tests.support.replies import Call
from tests.support.replies import Reply as Scripted
from tests.support.responses_form import ResponsesForm


@dataclass(frozen=True)
class Voice:
    """One model and how it is spoken to."""

    format: str
    model: str
    mode: ToolMode = "native"

    @property
    def label(self) -> str:
        return f"{self.format}/{self.model}"


VOICES = (
    Voice("chat", "scripted"),
    Voice("chat", "wordy", "text"),
    Voice("anthropic", "claude-sonnet-4-5"),
    Voice("anthropic", "claude-opus-4-8"),
    Voice("anthropic", "claude-haiku-4-5"),
    Voice("anthropic", "claude-opus-5-5"),
    Voice("responses", "gpt-5"),
    Voice("responses", "gpt-5.2"),
    Voice("responses", "gpt-4.1"),
)
ADAPTIVE = frozenset({"claude-opus-4-8", "claude-opus-5-5"})
IDS = ("", "call_0", "call:1|x y", "ü" * 30, "functions.read_file:0", "x" * 90, "toolu_abc")
"""Ids that models give their calls; an empty one is made up by the server."""
THINKING: tuple[Thinking | None, ...] = (None, "off", "low", "high", 2_000)


class _Gate:
    """Lets requests of the chosen model through and turns those of all others away, as a provider does
    that is overloaded: so the dialogue continues to the next route by itself."""

    def __init__(self, client: ModelClient, label: str, walk: Walk) -> None:
        self._client = client
        self._label = label
        self._walk = walk

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        if self._walk.chosen.label != self._label:
            raise ModelError("overloaded", "Overloaded; try again later.")
        async for delta in self._client.stream(request):
            yield delta

    async def aclose(self) -> None:
        await self._client.aclose()


@dataclass
class Walk:
    """A random walk. `requests` and `switches` count what was answered, and how often another model did."""

    folder: Path
    seed: int
    thinking: Thinking | None = "high"
    compacts: bool = True
    chosen: Voice = VOICES[0]
    requests: int = 0
    switches: int = 0
    events: list[Event] = field(default_factory=list)
    messages: MessagesForm = field(
        default_factory=lambda: MessagesForm(adaptive=ADAPTIVE, bound=frozenset({"claude-opus-5-5"}))
    )
    responses: ResponsesForm = field(
        default_factory=lambda: ResponsesForm(plain=frozenset({"gpt-4.1"}), phases=True)
    )
    refusals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)

    async def run(self, switches: int) -> None:
        """Continue until so many switches have been made."""
        forms = {"/v1/messages": self.messages, "/v1/responses": self.responses}
        async with (
            ModelServer(self._reply, forms=forms) as server,
            await Store.open(self.folder / "state.db") as store,
        ):
            self._clients = {
                name: FormatClient(FORMATS.get(name), server.base_url, "key")
                for name in ("chat", "anthropic", "responses")
            }
            record = await store.create_session(workspace="w", model="m")
            self.session = LiveSession(store, record, [], self.events.append)
            await self.session.add("system", "You are Hermes, and patient.", {})
            self._open()
            try:
                while self.switches < switches and not server.refusals:
                    await self._turn()
            finally:
                self.refusals = server.refusals
                for client in self._clients.values():
                    await client.aclose()

    def undeclared(self) -> list[str]:
        """Breaks of a prefix that nobody announced."""
        return [each.reason for each in self.events if isinstance(each, PrefixBroken) and not each.declared]

    def _open(self) -> None:
        """A dialogue as a process has it that has just taken the session up."""
        self._dialogue = Dialogue(
            self.session,
            [self._route(voice) for voice in self.chance.sample(VOICES, len(VOICES))],
            STANDARD,
            Meter(),
            AttachmentStore(self.folder / "attachments"),
            RequestSettings(policy=RetryPolicy(retries=0), thinking=lambda: self.thinking),
            RoomRules(threshold=0.85),
            TurnHelpers(self.events.append),
        )

    def _route(self, voice: Voice) -> ModelRoute:
        wire = Wire(FORMATS.get(voice.format), codec_for(voice.mode))
        return ModelRoute(
            name=voice.label,
            model=voice.model,
            client=_Gate(self._clients[voice.format], voice.label, self),
            wire=wire,
            tools=TOOLS,
            images=voice.mode == "native" and voice.model != "gpt-4.1",
            usual_output=self.chance.choice((None, 4_096, 64_000)),
        )

    async def _turn(self) -> None:
        """A message of the person, and what comes of it."""
        if self.chance.random() < 0.25:
            if self.chance.random() < 0.3:
                self.thinking = self.chance.choice(THINKING)
            messages = await self.session.store.path(self.session.id, self.session.head)
            self.session.move(self.session.head, messages)
            self._open()
        if (
            self.compacts
            and self.chance.random() < 0.04
            and (plan := plan_mask(self.session.path, 3) or plan_mask(self.session.path, 1))
        ):
            await self.session.add_compaction(plan)
            await self._dialogue.begin_again(plan.sentence())
        await self.session.add_user(self._words(), attachments=self._images())
        for step in range(1, self.chance.randint(2, 7)):
            if self.chance.random() < 0.1:
                await self.session.add_user("And mind the gap.", "steer")
            reply = await self._ask(step)
            if not reply.calls and reply.finish != "pause":
                return
            if self.chance.random() < 0.07:
                return
            for call in reply.calls:
                if self.chance.random() < 0.96:
                    result = {"content": self._words() * self.chance.randint(1, 30)}
                    await self.session.finish_call(call, str(result), {"outcome": "done"})

    async def _ask(self, step: int) -> ModelReply:
        before = self.chosen
        if self.chance.random() < 0.75:
            self.chosen = self.chance.choice(VOICES)
        reply = await self._dialogue.next_reply(step)
        self.requests += 1
        self.switches += self.chosen is not before
        data: dict[str, Any] = {"model": reply.route, "finish": reply.finish}
        if reply.sealed is not None:
            data["sealed"] = sealed_data(reply.sealed)
        text = reply.text
        if self.chance.random() < 0.04:
            # Stopped by the person: what was written stays, calls and thoughts are lost.
            await self.session.add_assistant(
                text or "I was", reply.reasoning, (), {"state": "interrupted", "model": reply.route}
            )
            return ModelReply(
                text=text, reasoning="", calls=(), finish="stop", usage=reply.usage, route=reply.route
            )
        node = await self.session.add_assistant(text, reply.reasoning, reply.calls, data)
        for call in reply.calls:
            await self.session.start_call(node, call)
        return reply

    def _reply(self, _request: Any) -> Scripted:
        """What the model says next."""
        chance = self.chance
        reasoning = chance.choice(("", "Let me think. ", "ü🎉 hmm"))
        count = chance.choice((0, 0, 1, 1, 2, 3))
        if self.chosen.mode == "text":
            return Scripted(text=_written("terminal") if count else "Done.")
        made = tuple(
            Call(
                chance.choice(("terminal", "todo_write")),
                '{"command": "ls ü"}' if chance.random() < 0.7 else '{"todos": []}',
                chance.choice(IDS) if position == 0 else "",
            )
            for position in range(count)
        )
        if self.chosen.format != "chat":
            made = tuple(Call(call.name, call.arguments) for call in made)
        text = chance.choice(("", "Looking. ", "  \n")) if made else "That is all.\n"
        finish = "auto"
        if self.chosen.format == "anthropic" and not made and chance.random() < 0.15:
            finish = "pause"
        return Scripted(
            text=text, reasoning=reasoning, calls=made, finish=finish, piece=chance.randint(1, 60)
        )

    def _words(self) -> str:
        return self.chance.choice(("Go on.", "What is in ü.txt?", "", "Fine. " * 40))

    def _images(self) -> list[Attachment]:
        if self.chance.random() > 0.2:
            return []
        path = write(self.folder / f"shot{self.chance.randint(1, 4)}.png")
        return [AttachmentStore(self.folder / "attachments").take(path)]


def _written(tool: str) -> str:
    return f'<tool_call>\n{{"name": "{tool}", "arguments": {{"command": "ls"}}}}\n</tool_call>'
