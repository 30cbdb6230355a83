"""A working day in ten minutes: many turns and tool calls through the application, and what is left of them.

The application runs headless with a real engine and the scripted model server. Every `--real`th turn is
a whole one: request, stream, answer, commit. The others, which are the bulk, are scripted events through
the application's bridge: reasoning, a streamed answer, ten calls with live output. Between them the
window changes its size, the skin changes, and the conversation is scrolled and searched to its start.

Memory is that of the process, after a collection and after the transcript has put away what nobody looks
at: the items used last are in memory, all others in its own file, and the search reads them there, those of
scripted turns too. The model answers from a process of its own. What the engine keeps for its requests
belongs to the real turns and is measured with them. The slope is that of a line through the second half of
the samples, beside what was said in it. The echo is from a key until the prompt's new row has been composed,
at the start and at the end; the loop is the one of the application, and nothing else is awaited. Any
exception ends the run.

    python benchmarks/ten_hours.py [--turns 2000] [--calls 10] [--real 20]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from textual.events import Key
from textual.pilot import Pilot

from agent.api.opening import open_session
from agent.events import (
    AssistantMessageAdded,
    ReasoningAdded,
    TextAdded,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessageAdded,
)
from agent.session.options import Options
from app.tui.application import HermesApp
from app.tui.conversation.session_host import Listener, SessionRequest
from benchmarks.markdown_stream import section
from tests.support.model_process import ServerProcess
from tests.support.sessions import engine_of
from themes.loader import load_skin
from tools.results import Display, TextDetail
from widgets.transcript.picture import KEPT_ITEMS, SLACK

SAMPLES = 20
"""Samples of memory in a run."""
WARM = 500
"""Turns of a run before its second half says anything about memory: until then caches fill."""
SHARE = 0.15
"""How much of what is said the slope may be: the place of each item in the file, and what requests hold."""
ECHOES = 25
"""Keys of one measurement of the echo."""
SCRIPT = 'script = lambda _request: say("Done, and **checked**. " * 20)'
"""What the model answers, in a process of its own, so that none of its memory is ours."""
SIZES = ((120, 40), (80, 24), (200, 60), (60, 20))
SKINS = ("amber", "ansi", "contrast-dark")


def memory() -> float:
    """MB of the process, garbage not counted."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Day:
    """The run: what is done in a turn, and what is noted down."""

    def __init__(self, app: HermesApp, pilot: Pilot[None], calls: int) -> None:
        self.app, self.pilot, self.calls = app, pilot, calls
        self.said = 0
        """Characters that came in so far."""

    async def scripted(self, turn: int) -> None:
        """A turn of events."""
        hear = self.app.bridge
        hear(TurnStarted(turn=turn))
        hear(UserMessageAdded(node=turn, text=f"Question {turn}: go on."))
        hear(ReasoningAdded(text="Look at the rounding of amounts. " * 4))
        for number in range(self.calls):
            self._call(f"{turn}-{number}", turn)
            await asyncio.sleep(0)
        text = f"Turn {turn}.\n\n{section(turn)}"
        for at in range(0, len(text), 200):
            hear(TextAdded(text=text[at : at + 200]))
            await asyncio.sleep(0.004)
        hear(AssistantMessageAdded(node=turn, text=text, reasoning="Look at the rounding of amounts. " * 4))
        hear(TurnEnded(outcome="done", text=text, session="s", usage={}))
        self.said += len(text)

    def _call(self, call: str, turn: int) -> None:
        hear = self.app.bridge
        output = f"line of output {call}\n" * 40
        display = Display("run", f"make check-{call}")
        hear(ToolStarted(call=call, tool="terminal", arguments={"command": f"make {call}"}, display=display))
        hear(ToolProgressed(call=call, text=output[:400]))
        ended = Display("run", f"make check-{call}", "40 lines", TextDetail(output))
        result = json.dumps({"output": output})
        hear(
            ToolFinished(
                node=turn,
                call=call,
                tool="terminal",
                outcome="done",
                seconds=0.1,
                result=result,
                display=ended,
            )
        )
        self.said += len(output) + len(result)

    async def real(self) -> None:
        """A turn of the engine."""
        engine = engine_of(self.app)
        engine.submit("go on")
        while engine.busy or engine.queue:
            await self.pilot.pause(0.01)

    async def disturb(self, turn: int) -> None:
        """What a person does to the window meanwhile."""
        transcript = self.app.session.transcript
        if turn % 25 == 0:
            await self.pilot.resize_terminal(*SIZES[turn // 25 % len(SIZES)])
        if turn % 40 == 0:
            self.app.appearance.show(load_skin(SKINS[turn // 40 % len(SKINS)], None).skin)
        if turn % 50 == 0:
            transcript.navigator.scroll(-200)
            transcript.navigator.fold_all()
            await transcript.navigator.find(f"Turn {turn // 2}")
            transcript.navigator.find_next()
            await transcript.navigator.find("")
            transcript.navigator.jump_to_end()

    async def settle(self) -> None:
        """Wait until what nobody looks at is put away."""
        document = self.app.session.transcript.document
        while document.in_memory > KEPT_ITEMS + SLACK:
            await self.pilot.pause(0.05)

    async def echo(self) -> float:
        """Median seconds from a key until the prompt with it is drawn."""
        await self.pilot.resize_terminal(*SIZES[0])
        await self.settle()
        await self.pilot.pause(0.5)
        prompt = self.app.session.prompt
        prompt.focus()
        times = []
        for number in range(1, ECHOES + 1):
            shown = "x" * number
            start = time.perf_counter()
            self.app.post_message(Key("x", "x"))
            while not any(shown in prompt.render_line(y).text for y in range(prompt.size.height)):  # noqa: ASYNC110
                await asyncio.sleep(0)
            times.append(time.perf_counter() - start)
            await asyncio.sleep(0.02)
        assert self.app.session.prompt.text.endswith("x" * ECHOES)
        self.app.session.prompt.set_text("")
        return statistics.median(times)


async def live(folder: Path, base_url: str, args: argparse.Namespace) -> dict[str, Any]:
    environ = {
        "HERMES_HOME": str(folder / "home"),
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "test-key",
        "HERMES_MODEL": "scripted",
    }

    async def opener(_wish: SessionRequest, listener: Listener):
        options = Options(workspace=folder / "work", attended=True, approve="all")
        return await open_session(options, listener, environ=environ)

    app = HermesApp(opener)
    samples: list[tuple[int, float, int]] = []
    async with app.run_test(size=SIZES[0]) as pilot:
        while app.host.client is None:
            await pilot.pause(0.01)
        day = Day(app, pilot, args.calls)
        first = 0.0
        for turn in range(1, args.turns + 1):
            await (day.real() if turn % args.real == 0 else day.scripted(turn))
            await day.disturb(turn)
            if turn == args.turns // SAMPLES:
                first = await day.echo()
            if turn % (args.turns // SAMPLES) == 0:
                await day.settle()
                samples.append((turn, memory(), day.said))
                print(f"turn {turn:,}: {samples[-1][1]:.0f} MB", file=sys.stderr, flush=True)
        last = await day.echo()
        items = app.session.transcript.document.stop
        await app.host.close()
    return {"samples": samples, "first": first, "last": last, "items": items, "crashed": app.has_crashed}


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--calls", type=int, default=10, help="tool calls of a turn")
    parser.add_argument("--real", type=int, default=20, help="every so manieth turn is one of the engine")
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        os.environ["HERMES_HOME"] = str(folder / "home")
        (folder / "work").mkdir()
        with ServerProcess(SCRIPT, folder) as server:
            found = asyncio.run(live(folder, server.base_url, args))
    samples = found["samples"]
    half = samples[len(samples) // 2 :]
    turns = half[-1][0] - half[0][0]
    slope = statistics.linear_regression([at for at, _, _ in half], [rss for _, rss, _ in half]).slope * 1e3
    said = (half[-1][2] - half[0][2]) / 1e3 / turns
    minutes = (time.monotonic() - began) / 60
    print(f"{args.turns:,} turns of {args.calls} calls, {found['items']:,} items in {minutes:.1f} min")
    print("memory, MB: " + " ".join(f"{rss:.1f}" for _, rss, _ in samples))
    print(f"second half: {slope:+.1f} kB a turn, of which said and put out {said:.1f} kB")
    print(
        f"echo {found['first'] * 1e3:.1f} ms at the start, {found['last'] * 1e3:.1f} ms at the end "
        f"({found['last'] / found['first']:.2f} x)"
    )
    if found["crashed"]:
        raise SystemExit("The application ended by a fault of its own.")
    if args.turns >= WARM and slope > said * SHARE:
        raise SystemExit("Memory grew with the conversation: something leaks.")


if __name__ == "__main__":
    main()
