"""From `hermes --resume` to the painted last message: a session of 100 messages against one of 10,000.

Both are resumed in turns, on a real terminal, by the real program; what is waited for is the text of
the last message among the bytes that were painted. Memory (PSS) is that of the program a moment later, when
what it does after the start is done. Beside it the transcript alone, without the program:
CPU until the last screen is composed, and the longest slice of work while as much of the rest comes in as
is fetched ahead.
Targets: 10,000 / 100 below 1.2; 100,000 messages at most 10 MB more than 100.

    python benchmarks/transcript_open.py [--messages 10000] [--rounds 7]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from textual.app import App, ComposeResult

from agent.core.store.nodes import NewNode, Node
from agent.core.store.store import Store
from app.tui.conversation.replay import newest_first
from app.tui.startup.gc_scheduler import schedule_collections
from benchmarks.markdown_stream import section
from tests.support import command
from tests.support.terminal import Terminal
from tools.registry import Registry
from widgets.transcript.picture import KEPT_ITEMS
from widgets.transcript.view import Transcript

SMALL = 100
IDLE = 0.0005
"""Seconds of CPU below which a turn of the loop did nothing worth counting."""
SETTLED = 10.0
"""Seconds after which a resumed session does nothing more."""
LAST = "These are the very last words."


def messages(count: int) -> list[NewNode]:
    """A conversation: a question, a call, its result, an answer, and so on."""
    nodes: list[NewNode] = []
    while len(nodes) < count - 1:
        turn = str(len(nodes))
        call = {"id": turn, "name": "read_file", "arguments": {"path": f"src/module_{turn}.py"}}
        result = json.dumps({"content": "a line of source text\n" * 40, "lines": 40})
        about = {"call": turn, "tool": "read_file", "outcome": "done", "seconds": 0.1}
        nodes += [
            NewNode("user", f"Question {turn}: why is the total off by a cent?", {"origin": "prompt"}),
            NewNode("assistant", "", {"calls": [call], "reasoning": "Look at the rounding."}),
            NewNode("tool", result, about),
            NewNode("assistant", section(len(nodes)), {"calls": [], "reasoning": ""}),
        ]
    return [*nodes[: count - 1], NewNode("assistant", LAST, {"calls": []})]


async def build(home: Path, workspace: Path, counts: list[int]) -> list[str]:
    """A store with a session of each count; their ids."""
    ids = []
    async with await Store.open(home / "state.db") as store:
        for count in counts:
            session = await store.create_session(workspace=str(workspace), model="scripted")
            await store.append_many(session.id, messages(count))
            ids.append(session.id)
    return ids


def resume(session: str, env: dict[str, str], cwd: Path) -> tuple[float, float, float]:
    """Seconds and seconds of CPU from the start of the program to the painted last message, and MB later."""
    with Terminal([*command.HERMES, "--resume", session], env, cwd) as terminal:
        terminal.until(LAST.encode())
        took = time.monotonic() - terminal.started
        folder = Path(f"/proc/{terminal.process.pid}")
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        end = time.monotonic() + SETTLED
        while (left := end - time.monotonic()) > 0:
            terminal.read(left)
        memory = int((folder / "smaps_rollup").read_text().partition("\nPss:")[2].split()[0]) / 1024
        return took, (int(fields[11]) + int(fields[12])) / 100, memory


class Host(App[None]):
    """Nothing but the transcript."""

    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript()

    def compose(self) -> ComposeResult:
        yield self.transcript


async def alone(path: list[Node]) -> tuple[float, list[float]]:
    """Seconds of CPU until the last screen is composed, and of each turn of the loop while the rest comes."""
    host = Host()
    async with host.run_test(size=(120, 40)), schedule_collections(lambda: float("inf")):
        start = time.thread_time()
        host.transcript.load(earlier=newest_first(path, Registry()))
        shown = time.thread_time() - start
        assert LAST in "".join(host.transcript.render_line(y).text for y in range(40))
        turns = []
        end = min(len(path), KEPT_ITEMS)
        while len(host.transcript.document) < end:
            start = time.thread_time()
            await asyncio.sleep(0)
            spent = time.thread_time() - start
            if spent > IDLE:
                turns.append(spent)
        return shown, turns


def node(number: int, new: NewNode) -> Node:
    return Node(number, "s", number - 1 or None, new.kind, 0.0, new.content, new.data)


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    counts = [SMALL, args.messages]
    times: dict[int, list[tuple[float, float, float]]] = {count: [] for count in counts}
    with tempfile.TemporaryDirectory() as name:
        home, work = Path(name) / "home", Path(name) / "work"
        home.mkdir(mode=0o700)
        work.mkdir()
        ids = asyncio.run(build(home, work, counts))
        env = command.environment(home, "http://127.0.0.1:9/v1")
        for _ in range(args.rounds):
            for count, session in zip(counts, ids, strict=True):
                times[count].append(resume(session, env, work))
    for count in counts:
        wall, cpu, memory = (statistics.median(each) for each in zip(*times[count], strict=True))
        print(
            f"hermes --resume, {count:7,} messages  {wall * 1e3:7.0f} ms  {cpu * 1e3:7.0f} ms CPU "
            f"to the last message  {memory:6.1f} MB"
        )
    (small, _, less), (large, _, more) = (
        [statistics.median(each) for each in zip(*times[count], strict=True)] for count in counts
    )
    print(f"ratio {large / small:.2f} (target < 1.2); memory {more - less:+.1f} MB (target ≤ 10)")
    for count in counts:
        path = [node(number, new) for number, new in enumerate(messages(count), 1)]
        runs = [asyncio.run(alone(path)) for _ in range(args.rounds)]
        shown = statistics.median(shown for shown, _ in runs) * 1e3
        slices = sorted(turn for _, turns in runs for turn in turns) or [0.0]
        p99, longest = slices[int(len(slices) * 0.99)] * 1e3, slices[-1] * 1e3
        print(
            f"transcript alone, {count:6,}: {shown:5.1f} ms CPU to the last screen; "
            f"then turns of the loop: p99 {p99:.1f} ms, longest {longest:.1f} ms CPU"
        )


if __name__ == "__main__":
    main()
