"""Gives tasks to real servers and prints what came of them as a table for docs/models.md.

    python -m tests.model_servers [litellm|llamacpp|transformers …]

Each cell is one whole turn of the engine: calls side by side, thinking, an image, a stop in the middle,
a session taken up again, an answer cut at the limit, too many requests, a refusal, an overflow.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agent.attachments import AttachmentStore
from agent.events import Noticed, TextAdded, ToolFinished, UsageChanged
from agent.home import Home
from tests.model_servers import real
from tests.support.engines import Bench
from tests.support.images import png
from tests.support.messages_form import MessagesForm
from tests.support.model_server import ModelServer, Recorded, Reply, calls, refuse, say
from tests.support.responses_form import ResponsesForm

TASKS = ("calls", "thinking", "image", "stop", "resume", "limit", "wait", "refusal", "overflow", "window")
FORMATS = ("chat", "anthropic", "responses")
RESULTS = (b'"tool_result"', b'"role":"tool"', b'"role": "tool"', b"function_call_output")
PATIENCE = 240
"""Seconds one task may take."""


class Lenient:
    """A form that takes every request: what gateways add is none of our business."""

    def __init__(self, form: Any) -> None:
        self._form = form

    def check(self, request: Recorded) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._form, name)


class Thoughtful(Lenient):
    """The Messages API with its rule about thoughts alone."""

    def check(self, request: Recorded) -> None:
        self._form._thoughts(request.body)


class Script:
    """What the upstream answers: the task is named in the newest message that names one."""

    def __init__(self) -> None:
        self.limited = 0
        self.images = 0

    def __call__(self, request: Recorded) -> Reply:
        raw = request.raw
        found = {task: raw.rfind(f"TASK {task}".encode()) for task in TASKS}
        task = max(found, key=lambda name: found[name])
        answered = any(raw.rfind(mark) > found[task] for mark in RESULTS)
        match task:
            case "calls" | "thinking" if not answered:
                both = (("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}))
                return calls(*both, reasoning="I look at both." if task == "thinking" else "")
            case "image":
                self.images += raw.count(b"image/png") > 0
                return say("A picture.")
            case "stop":
                return say("word " * 2_000, pace=0.05)
            case "limit" if b"output limit" not in raw:
                return say("One, ", finish="length")
            case "wait" if self.limited < 1:
                self.limited += 1
                return refuse(429, "Too many requests.", headers={"retry-after": "3"})
            case "refusal":
                return refuse(400, "Your request was flagged by the safety system.", code="content_filter")
            case "overflow" if len(raw) > 60_000:
                words = "This model's maximum context length is 9000 tokens, however you requested 16000."
                return refuse(400, words, code="context_length_exceeded")
            case _:
                return say("two." if task == "limit" else "Done.")


def configured(bench: Bench, address: str, model: str, format_name: str, more: str = "") -> None:
    bench.config(
        f"model: {{name: near/{model}, retries: 3{more}}}\n"
        f"providers: {{near: {{base_url: '{address}', format: {format_name}, api_key_env: NEAR_KEY}}}}\n"
    )
    bench.environ |= {"HERMES_MODEL": "", "OPENAI_BASE_URL": "", "OPENAI_API_KEY": "", "NEAR_KEY": real.KEY}


class Tried:
    """One row: a server, a format, a model."""

    def __init__(
        self, bench: Bench, address: str, model: str, format_name: str, script: Script | None
    ) -> None:
        self.bench, self.address, self.model, self.format = bench, address, model, format_name
        self.script = script

    async def cell(self, task: str) -> str:
        """What came of a task: `yes`, `-` where it has no meaning, else what went wrong."""
        self.bench.events.clear()
        limit = ", thinking: low" if task == "thinking" else ""
        if self.script is None or task == "limit":
            # A small model on a processor writes a few words a second.
            limit += ", max_output: 24"
        configured(self.bench, self.address, self.model, self.format, limit)
        try:
            return await asyncio.wait_for(getattr(self, task)(), PATIENCE)
        except TimeoutError:
            return f"nothing within {PATIENCE} s"
        except Exception as error:
            traceback.print_exc()
            return f"{type(error).__name__}: {error}"[:120]

    async def turn(self, task: str, **options: Any) -> Any:
        return await self.bench.turn(f"TASK {task}", **options)

    @property
    def told(self) -> list[str]:
        return [each.text for each in self.bench.seen(Noticed) if each.kind != "info"]

    def right(self, holds: bool, ended: Any) -> str:
        notes = "; ".join(self.told)[:160]
        if self.script is None and "output limit" in ended.error:
            # What a small model says is none of our business, as long as a cut is told as one.
            holds = True
        if holds:
            return f"yes ({notes})" if notes else "yes"
        return f"NO: {ended.outcome}, {(ended.error or ended.text)[:140]!r}"

    async def calls(self) -> str:
        ended = await self.turn("calls")
        results = [each.outcome for each in self.bench.seen(ToolFinished)]
        if self.script is None:
            return self.right(ended.outcome == "done", ended)
        return self.right(ended.outcome == "done" and results == ["done", "done"], ended)

    async def thinking(self) -> str:
        ended = await self.turn("thinking")
        if ended.outcome == "done" and self.script is not None:
            ended = await self.turn("thinking again", resume=ended.session)
        return self.right(ended.outcome == "done", ended)

    async def image(self) -> str:
        (self.bench.workspace / "p.png").write_bytes(png())
        store = AttachmentStore(Home(self.bench.home).attachments)
        taken = store.take(self.bench.workspace / "p.png", "@p.png")
        async with self.bench.engine() as engine:
            ended = await engine.run("TASK image", [taken])
            again = await engine.run("TASK resume")
        seen = self.script is None or self.script.images > 0
        return self.right(ended.outcome == again.outcome == "done" and seen, ended)

    async def stop(self) -> str:
        async with self.bench.engine() as engine:
            running = asyncio.ensure_future(engine.run("TASK stop: count from one to a thousand in words"))
            for _ in range(600):
                if running.done() or any(self.bench.seen(TextAdded)):
                    break
                await asyncio.sleep(0.1)
            engine.interrupt()
            began = time.monotonic()
            ended = await running
            took = time.monotonic() - began
        after = await self.turn("resume", resume=ended.session)
        fits = ended.outcome in ("interrupted", "done") and took < 5 and after.outcome == "done"
        return self.right(fits, ended if ended.outcome != "interrupted" else after)

    async def resume(self) -> str:
        first = await self.turn("resume")
        second = await self.turn("resume", resume=first.session)
        return self.right(first.outcome == second.outcome == "done", second)

    async def limit(self) -> str:
        ended = await self.turn("limit: count to one thousand in words, leaving nothing out")
        if self.script is not None:
            return self.right(ended.text.replace(" ", "") == "One,two.", ended)
        cut = ended.outcome == "failed" and "output limit" in ended.error
        return "yes (told as cut)" if cut else self.right(False, ended)

    async def wait(self) -> str:
        if self.script is None:
            return "-"
        self.script.limited = 0
        ended = await self.turn("wait")
        return self.right(ended.outcome == "done", ended)

    async def refusal(self) -> str:
        if self.script is None:
            return "-"
        ended = await self.turn("refusal")
        after = await self.turn("resume", resume=ended.session)
        return self.right(ended.outcome == "failed" and after.outcome == "done", after)

    async def overflow(self) -> str:
        if self.script is None and self.model == "tiny":
            return "-"
        async with self.bench.engine() as engine:
            for number in range(3):
                await engine.run(f"TASK resume: remember {number} " + "lorem ipsum dolor " * 500)
            ended = await engine.run("TASK overflow " + "sit amet " * 3_000)
            after = await engine.run("TASK resume")
        return self.right("done" in (ended.outcome, after.outcome), ended)

    async def window(self) -> str:
        await self.turn("resume")
        used = self.bench.seen(UsageChanged)
        if not used or used[-1].context_window is None:
            return "not told"
        return f"{used[-1].context_window:,}{' told' if used[-1].window_told else ''}"


async def rows(
    name: str, address: str, models: list[str], folder: Path, upstream: ModelServer, script: Script | None
) -> list[list[str]]:
    made: list[list[str]] = []
    for model in models:
        for format_name in FORMATS:
            place = folder / f"{name}-{format_name}-{model.rpartition('/')[2]}"
            workspace = place / "work"
            workspace.mkdir(parents=True)
            for letter in "ab":
                (workspace / f"{letter}.txt").write_text(f"This is {letter}.")
            bench = Bench((place / "home").resolve(), workspace.resolve(), upstream)
            tried = Tried(bench, address, model, format_name, script)
            row = [f"{name} {model.rpartition('/')[2]}", format_name]
            for task in TASKS:
                row.append(await tried.cell(task))
                print(f"{row[0]} {format_name} {task}: {row[-1]}", flush=True)
            made.append(row)
    return made


async def with_litellm(folder: Path) -> list[list[str]]:
    script = Script()
    forms = {"/v1/messages": Thoughtful(MessagesForm()), "/v1/responses": Lenient(ResponsesForm())}
    async with ModelServer(script, forms=forms) as upstream:
        taken: dict[str, Any] = upstream._forms
        taken["/v1/chat/completions"] = Lenient(taken["/v1/chat/completions"])
        for path in ("/anthropic/v1/messages", "/v1/anthropic/v1/messages"):
            taken[path] = taken["/v1/messages"]
        async with real.litellm(upstream.base_url.removesuffix("/v1"), folder) as address:
            return await rows("LiteLLM", address, list(real.KINDS), folder, upstream, script)


async def with_llamacpp(folder: Path) -> list[list[str]]:
    async with ModelServer() as upstream, real.llamacpp(folder) as address:
        return await rows("llama.cpp", address, ["smollm2"], folder, upstream, None)


async def with_transformers(folder: Path) -> list[list[str]]:
    async with ModelServer() as upstream, real.transformers(folder) as (address, model):
        return await rows("transformers", address, [model], folder, upstream, None)


SERVERS: dict[str, Callable[[Path], Awaitable[list[list[str]]]]] = {
    "litellm": with_litellm,
    "llamacpp": with_llamacpp,
    "transformers": with_transformers,
}


async def main(wanted: list[str]) -> int:
    table: list[list[str]] = []
    missing: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hermes-servers-") as folder:
        for name in wanted:
            try:
                table += await SERVERS[name](Path(folder))
            except real.MissingError as error:
                missing.append(f"{name} could not be had: {error}")
    print("\n| Server and model | Format | " + " | ".join(TASKS) + " |")
    print("|" + "---|" * (len(TASKS) + 2))
    for row in table:
        print("| " + " | ".join(each.replace("|", "/") for each in row) + " |")
    print("\n".join(missing))
    wrong = sum(each.startswith(("NO", "nothing")) or "Error:" in each for row in table for each in row)
    print(f"{sum(map(len, table)) - 2 * len(table)} tasks, {wrong} not as they should be")
    return 1 if wrong or not table else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:] or list(SERVERS))))
