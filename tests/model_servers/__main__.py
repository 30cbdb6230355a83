"""Gives tasks to real servers and prints the results, for the table of docs/models.md.

    python -m tests.model_servers [--again] [SERVER[/FORMAT[/MODEL[/TASK]]] …]

Each cell is one whole turn of the engine: calls side by side, thinking, an image, a stop in the middle,
a session taken up again, an answer cut at the limit, too many requests, a refusal, an overflow.
`*` stands for any part. What was seen is kept in build/servers/seen.json at once; a later run asks only
for the cells that were not right, or were seen of another version, but for `--again`.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.core.attachments import AttachmentStore
from agent.core.home import Home
from agent.events import Noticed, ReasoningAdded, TextAdded, ToolFinished, UsageChanged
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
        # OpenRouter calls its thoughts otherwise than DeepSeek.
        is_routed = "/" in request.body["model"]
        return replace(
            self._answer(request), reasoning_field="reasoning" if is_routed else "reasoning_content"
        )

    def _answer(self, request: Recorded) -> Reply:
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
        self.is_real = model == "smollm2"
        """Whether a small model says what it likes."""

    async def cell(self, task: str) -> str:
        """What came of a task: `yes`, `-` where it has no meaning, else what went wrong."""
        self.bench.events.clear()
        limit = ", thinking: low" if task == "thinking" else ""
        if self.is_real or (self.script is None and task == "limit"):
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
        if self.is_real and "output limit" in ended.error:
            # What a small model says is none of our business, as long as a cut is told as one.
            holds = True
        if holds:
            return f"yes ({notes})" if notes else "yes"
        return f"NO: {ended.outcome}, {(ended.error or ended.text)[:140]!r}"

    async def calls(self) -> str:
        ended = await self.turn("calls")
        results = [each.outcome for each in self.bench.seen(ToolFinished)]
        both = self.is_real or results == ["done", "done"]
        return self.right(ended.outcome == "done" and both, ended)

    async def thinking(self) -> str:
        ended = await self.turn("thinking")
        if ended.outcome == "done" and not self.is_real:
            if not any(self.bench.seen(ReasoningAdded)):
                return "NO: no thoughts were seen"
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
        if self.script is None and "/" in self.model:
            return "-"  # It has no window of its own.
        async with self.bench.engine() as engine:
            for number in range(3):
                await engine.run(f"TASK resume: remember {number} " + "lorem ipsum dolor " * 500)
            ended = await engine.run("TASK overflow " + "sit amet " * (3_000 if self.script else 20_000))
            after = await engine.run("TASK resume")
        return self.right("done" in (ended.outcome, after.outcome), ended)

    async def window(self) -> str:
        await self.turn("resume")
        used = self.bench.seen(UsageChanged)
        if not used or used[-1].context_window is None:
            return "not told"
        return f"{used[-1].context_window:,}{' told' if used[-1].window_told else ''}"


Key = tuple[str, str, str]
"""Server, format and model."""


class Seen:
    """What was seen, in a file: each cell with the versions of the server and of this program."""

    def __init__(self, wanted: list[str], again: bool) -> None:
        self._path = real.BUILD / "seen.json"
        self._cells: dict[str, dict[str, str]] = {}
        if self._path.exists():
            self._cells = json.loads(self._path.read_text(encoding="utf-8"))
        self._wanted, self._again = [each.split("/") for each in wanted], again

    def asks(self, key: Key, task: str | None = None) -> bool:
        """Whether this run is to find out a cell; without a task, any of its row."""
        if task is None:
            return any(self.asks(key, each) for each in TASKS)
        parts = (key[0], key[1], _short(key[2]), task)
        chosen = any(
            all(fnmatch.fnmatch(part, pattern) for part, pattern in zip(parts, each, strict=False))
            for each in self._wanted
        )
        known = self._cells.get("/".join(parts))
        fresh = known is not None and known["version"] == real.version(key[0]) and not is_wrong(known["seen"])
        return chosen and (self._again or not fresh)

    def keep(self, key: Key, task: str, seen: str) -> None:
        place = "/".join((key[0], key[1], _short(key[2]), task))
        self._cells[place] = {"seen": seen, "version": real.version(key[0]), "day": time.strftime("%Y-%m-%d")}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._cells, indent=1, ensure_ascii=False), encoding="utf-8")

    def table(self) -> list[list[str]]:
        rows: dict[str, list[str]] = {}
        for place, cell in self._cells.items():
            row, _, task = place.rpartition("/")
            name = row.replace("/", f" {cell['version']}/", 1)
            made = rows.setdefault(name, [*name.split("/"), *([""] * len(TASKS))])
            made[TASKS.index(task) + 3] = cell["seen"]
        return [rows[name] for name in sorted(rows)]


def _short(model: str) -> str:
    return model.rpartition("/")[2]


def is_wrong(seen: str) -> bool:
    return seen.startswith(("NO", "nothing")) or "Error:" in seen


async def ask_all(
    seen: Seen, keys: Sequence[Key], address: str, folder: Path, upstream: ModelServer, script: Script | None
) -> None:
    for key in keys:
        name, format_name, model = key
        place = folder / f"{name}-{format_name}-{_short(model)}"
        workspace = place / "work"
        workspace.mkdir(parents=True, exist_ok=True)
        for letter in "ab":
            (workspace / f"{letter}.txt").write_text(f"This is {letter}.")
        bench = Bench((place / "home").resolve(), workspace.resolve(), upstream)
        tried = Tried(bench, address, model, format_name, script)
        for task in TASKS:
            if not seen.asks(key, task):
                continue
            began = time.monotonic()
            cell = await tried.cell(task)
            seen.keep(key, task, cell)
            print(f"{name} {format_name} {_short(model)} {task}: {cell} [{time.monotonic() - began:.0f} s]")


async def with_litellm(folder: Path, seen: Seen) -> None:
    keys = [("litellm", form, model) for model in real.KINDS for form in FORMATS]
    keys = [key for key in keys if seen.asks(key)]
    if not keys:
        return
    script = Script()
    forms = {"/v1/messages": Thoughtful(MessagesForm()), "/v1/responses": Lenient(ResponsesForm())}
    async with ModelServer(script, forms=forms) as upstream:
        taken: dict[str, Any] = upstream._forms
        taken["/v1/chat/completions"] = Lenient(taken["/v1/chat/completions"])
        for path in ("/anthropic/v1/messages", "/v1/anthropic/v1/messages"):
            taken[path] = taken["/v1/messages"]
        async with real.litellm(upstream.base_url.removesuffix("/v1"), folder) as address:
            await ask_all(seen, keys, address, folder, upstream, script)


async def with_llamacpp(folder: Path, seen: Seen) -> None:
    scripted = [key for form in FORMATS if seen.asks(key := ("llamacpp", form, "scripted"))]
    small = [key for form in FORMATS[:1] if seen.asks(key := ("llamacpp", form, "smollm2"))]
    async with ModelServer() as upstream:
        if scripted:
            async with real.llamacpp(folder, 32_768) as address:
                await ask_all(seen, scripted, address, folder, upstream, None)
        if small:
            async with real.llamacpp(folder, scripted=False) as address:
                await ask_all(seen, small, address, folder, upstream, None)


async def with_transformers(folder: Path, seen: Seen) -> None:
    model = str(folder / "scripted")
    keys = [key for form in ("chat", "responses") if seen.asks(key := ("transformers", form, model))]
    if not keys:
        return
    async with ModelServer() as upstream, real.transformers(folder) as (address, _):
        await ask_all(seen, keys, address, folder, upstream, None)


SERVERS: dict[str, Callable[[Path, Seen], Awaitable[None]]] = {
    "litellm": with_litellm,
    "llamacpp": with_llamacpp,
    "transformers": with_transformers,
}


async def main(arguments: list[str]) -> int:
    wanted = [each for each in arguments if each != "--again"] or list(SERVERS)
    seen = Seen(wanted, "--again" in arguments)
    missing: list[str] = []
    for name, ask in SERVERS.items():
        if not any(fnmatch.fnmatch(name, each.partition("/")[0]) for each in wanted):
            continue
        with tempfile.TemporaryDirectory(prefix="hermes-servers-") as folder:
            try:
                await ask(Path(folder), seen)
            except real.MissingError as error:
                missing.append(f"{name} could not be had: {error}")
    table = seen.table()
    print("\n| Server | Format | Model | " + " | ".join(TASKS) + " |")
    print("|" + "---|" * (len(TASKS) + 3))
    for row in table:
        print("| " + " | ".join(each.replace("|", "/") for each in row) + " |")
    print("\n".join(missing))
    cells = [each for row in table for each in row[3:] if each]
    wrong = sum(map(is_wrong, cells))
    print(f"{len(cells)} tasks, {wrong} not as they should be")
    return 1 if wrong or not table or missing else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.exit(asyncio.run(main(sys.argv[1:])))
