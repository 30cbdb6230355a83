"""Sessions as they come about, to be replayed: random, in three wire formats and two tool modes, with faults.

Everything is real but the models: engine, gate, tools, store, clients, the strict server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from agent.errors import HermesError
from agent.session.engine import Engine
from tests.support.compacting import ASKED_TO_CONDENSE, SUMMARY
from tests.support.engines import Bench
from tests.support.messages_form import MessagesForm
from tests.support.model_server import ModelServer
from tests.support.replies import Call, Reply, call, calls, refuse, say
from tests.support.responses_form import ResponsesForm

KINDS = ("chat", "text", "anthropic", "responses")
CONFIG = """\
providers:
  chat: {{base_url: '{url}', api_key_env: ANY_KEY}}
  text: {{base_url: '{url}', api_key_env: ANY_KEY, tool_mode: text}}
  anthropic: {{base_url: '{url}', api_key_env: ANY_KEY, format: anthropic}}
  responses: {{base_url: '{url}', api_key_env: ANY_KEY, format: responses}}
model: {{retries: 2}}
checkpoints: {{enabled: false}}
watcher: {{enabled: false}}
"""
WRITTEN = """\
Let me see.
<tool_call>
{"name": "read_file", "arguments": {"path": "notes.txt"}}
</tool_call>"""
MODELS = {"chat": "scripted", "text": "wordy", "anthropic": "claude-sonnet-4-5", "responses": "gpt-5"}


@dataclass
class Recording:
    """Makes sessions in one home. `seen` counts what came about."""

    folder: Path
    seen: dict[str, int] = field(default_factory=dict)
    chance: Random = field(default_factory=Random)
    kind: str = "chat"
    left: int = 0
    failed: bool = False
    stop: Any = None

    def server(self) -> ModelServer:
        forms = {"/v1/messages": MessagesForm(), "/v1/responses": ResponsesForm()}
        return ModelServer(self._reply, forms=forms)

    def bench(self, server: ModelServer) -> Bench:
        workspace = self.folder / "work"
        workspace.mkdir(exist_ok=True)
        (workspace / "notes.txt").write_text("one\ntwo\nthree\n" * 30)
        bench = Bench((self.folder / "home").resolve(), workspace.resolve(), server)
        bench.config(CONFIG.format(url=server.base_url))
        bench.environ = {"ANY_KEY": "k"}
        return bench

    async def session(self, bench: Bench, seed: int) -> str:
        """One session of a kind that follows from the seed; its id."""
        self.chance = chance = Random(seed)
        self.kind = KINDS[seed % len(KINDS)]
        model = f"{self.kind}/{MODELS[self.kind]}"
        session = ""
        for _ in range(chance.randint(1, 2)):
            async with bench.engine(model=model, resume=session or None) as engine:
                session = engine.session.id
                for turn in range(chance.randint(1, 3)):
                    await self._turn(engine, turn)
                    if chance.random() < 0.2:
                        await self._fold(engine)
        return session

    async def _turn(self, engine: Engine, turn: int) -> None:
        self.left = self.chance.randint(0, 3)
        if self.chance.random() < 0.15:
            self._note("interrupted")
            stopped = asyncio.Event()
            self.stop = stopped
            engine.submit(f"Stop in the middle of {turn}.")
            await stopped.wait()
            engine.interrupt()
            await engine.idle()
            return
        if self.chance.random() < 0.2:
            self._note("steered")
            asyncio.get_running_loop().call_later(0.02, lambda: engine.busy and engine.steer("Mind the gap."))
        await engine.run(f"Work on part {turn}, ü 🎉, please.")

    async def _fold(self, engine: Engine) -> None:
        try:
            await engine.compact()
            self._note("folded")
        except HermesError:
            pass

    def _note(self, what: str) -> None:
        self.seen[what] = self.seen.get(what, 0) + 1

    def _reply(self, request: Any) -> Reply:
        chance = self.chance
        if self.stop is not None:
            stop, self.stop = self.stop, None
            asyncio.get_running_loop().call_soon(stop.set)
            return say("I was going to say that this is a long answer. " * 20, stall_at=900, stall=30.0)
        if ASKED_TO_CONDENSE in request.raw.decode("utf-8", "replace"):
            return say(SUMMARY.format(number=1))
        if not self.failed and chance.random() < 0.08:
            self.failed = True
            self._note("refused once")
            return refuse(503, "overloaded")
        self.failed = False
        if self.left <= 0:
            return self._last()
        self.left -= 1
        if self.kind == "text":
            return say(WRITTEN)
        return self._call()

    def _last(self) -> Reply:
        match self.chance.randrange(8):
            case 0:
                self._note("empty")
                return say("")
            case 1:
                self._note("continued")
                return say("This is the first half ", finish="length")
            case 2 if self.kind == "chat":
                self._note("thought")
                return say("<think>hm</think>Done with it.")
            case _:
                reasoning = self.chance.choice(("", "Let me think. "))
                return say("Done, ü.\n", reasoning=reasoning)

    def _call(self) -> Reply:
        match self.chance.randrange(8):
            case 0 if self.kind == "chat":
                self._note("broken arguments")
                return calls(("read_file", '{"path": "notes.t'), finish="length")
            case 1:
                self._note("unknown tool")
                return call("no_such_tool", path="x")
            case 2:
                self._note("parallel")
                return calls(
                    ("read_file", {"path": "notes.txt"}), ("search", {"pattern": "two"}), text="Both. "
                )
            case 3:
                self._note("the same twice")
                return calls(("read_file", {"path": "notes.txt"}), ("read_file", {"path": "notes.txt"}))
            case 4 if self.kind == "chat":
                self._note("written as text")
                return say('{"name": "read_file", "arguments": {"path": "notes.txt"}}')
            case 5:
                return call("todo_write", todos=[{"id": "1", "content": "look", "status": "in_progress"}])
            case 6 if self.kind == "chat":
                self._note("mended")
                return Reply(calls=(Call("read_file", "{'path': 'notes.txt',}"),))
            case _:
                return call("write_file", path=f"out-{self.left}.txt", content="ü\n")
