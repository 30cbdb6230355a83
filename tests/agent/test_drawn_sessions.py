"""Whole sessions drawn by lot: real tools, a scripted model, and whatever may go wrong in an ordinary week.

Every turn ends as what it was: done unless it was killed, stopped, out of turns, or its model failed on
purpose. The next message works, every call has its one result, and no log has a traceback.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent.core.store.store import Store
from agent.errors import HermesError
from agent.events import ToolFinished, ToolStarted
from agent.session.engine import Engine
from tests.support.broken_answers import BROKEN
from tests.support.command import HERMES, environment
from tests.support.engines import Bench, bench
from tests.support.replies import Reply, calls, refuse, resolve, say

SESSIONS, USUAL, AT_ONCE = 1_000, 40, 10
"""Sessions of a thorough run, those of the usual run, 0.65 s of a core each, and how many are one case."""
Wanted = tuple[str, dict[str, Any] | str]

FILES = ("a.txt", "src/b.py", "notes.md", "long.txt")
COMMANDS = (
    *("ls", "cat a.txt", "echo $((1 + 1)); cd src", "false", "exit 3", "nosuchprogram --now", "cat missing"),
    *(
        "echo 'open",
        "kill -9 $$",
        "rm -f made.txt; echo x > made.txt",
        "printf '\\0\\x1b[31m\\377'",
        "yes | head -2000",
    ),
    *(
        "sed -i s/one/two/ a.txt",
        "mkdir -p deep/er && touch deep/er/f",
        "git init -q . 2>&1 | head -1",
        "ls >&2; exit 1",
    ),
    *(
        "export V=1",
        "unset HOME; pwd",
        "sleep 0.05 & echo begun",
        "mv notes.md moved.md; mv moved.md notes.md",
    ),
)
SCRIPTS = (
    "print(1 + 1)",
    "raise ValueError('no')",
    "def f(:",
    "from hermes_tools import read_file\nprint(read_file('a.txt'))",
    "from hermes_tools import read_file, terminal\nprint(terminal('false'))\nprint(read_file('missing'))",
    "import sys; sys.exit(4)",
    "import os; os.write(1, b'\\xff\\x00')",
    "print('x' * 200_000)",
)
TROUBLE = """
hooks:
  before_tool:
    - {command: "exit 3", match: "read_file|terminal"}
    - {command: "kill -9 $$", match: "patch"}
  after_tool:
    - {command: "printf '\\0\\033]0;x'; exit 1", match: "search"}
  turn_end:
    - {command: "nosuchprogram"}
mcp_servers:
  dead: {command: sh, args: ["-c", "exit 1"]}
  mute: {command: sh, args: ["-c", "printf '\\0nonsense\\n'; sleep 0.1"]}
"""
"""Settings of every second case: hooks that fail, and servers that end at once."""
PATCH = "*** Begin Patch\n*** Update File: {}\n@@\n-{}\n+changed\n*** End Patch"


def misspelt(draw: random.Random, name: str) -> str:
    """The name, or something like it."""
    kind = draw.randrange(8)
    if kind < 5:
        return name
    at = draw.randrange(len(name))
    return (name[:at] + name[at + 1 :], f"./{name}/", f"../{name}")[kind - 5] or "x"


def one_call(draw: random.Random) -> Wanted:
    """A call of any tool, of which some cannot work."""
    file = misspelt(draw, draw.choice(FILES))
    word = draw.choice(("one", "two", "def f", "", "ünïcode", "x" * 50))
    text = draw.choice(("one\n", "", "two\nthree\n", "def f():\n    return 1\n", "def f(:\n", "\tü\r\n"))
    fits: tuple[Callable[[], Wanted], ...] = (
        lambda: ("read_file", {"path": file}),
        lambda: (
            "read_file",
            {"path": file, "offset": draw.choice((0, 2, 900)), "limit": draw.choice((1, 5))},
        ),
        lambda: ("read_file", {"path": draw.choice((".", "src", "/", "/etc/hostname", "", "a.txt\0"))}),
        lambda: ("write_file", {"path": file, "content": text}),
        lambda: ("write_file", {"path": draw.choice(("src", "new/deep/f.py", "a.txt/x")), "content": text}),
        lambda: ("patch", {"mode": "replace", "path": file, "old_string": word, "new_string": text}),
        lambda: ("patch", {"mode": "patch", "patch": PATCH.format(file, word)}),
        lambda: ("patch", {"mode": draw.choice(("replace", "patch"))}),
        lambda: (
            "search_files",
            {"pattern": draw.choice((word or "(", "*.py", "[")), "target": draw.choice(("content", "files"))},
        ),
        lambda: ("terminal", {"command": draw.choice(COMMANDS)}),
        lambda: (
            "terminal",
            {"command": draw.choice(COMMANDS), "workdir": draw.choice(("src", "nowhere", "/"))},
        ),
        lambda: ("terminal", {"command": draw.choice(("sleep 0.1", "cat", "exit 2")), "background": True}),
        lambda: (
            "process",
            {"action": draw.choice(("list", "poll", "kill")), "session_id": draw.choice(("p1", "?"))},
        ),
        lambda: ("execute_code", {"code": draw.choice(SCRIPTS)}),
        lambda: (
            "todo_write",
            {
                "todos": [
                    {
                        "id": "1",
                        "content": word or "x",
                        "status": draw.choice(("pending", "in_progress", "completed")),
                    }
                ]
            },
        ),
        lambda: ("todo_read", {}),
        lambda: (
            "memory",
            {
                "action": "add",
                "target": draw.choice(("memory", "user")),
                "content": f"The port is {draw.randrange(4)}.",
            },
        ),
        lambda: (
            "memory",
            {
                "action": draw.choice(("replace", "remove")),
                "target": "memory",
                "old_text": word,
                "content": "Other.",
            },
        ),
        lambda: (
            "save_learning",
            {"pattern": draw.choice(COMMANDS[3:7]), "fix": draw.choice(("use true", "make it first"))},
        ),
        lambda: ("search_learnings", {"query": word}),
        lambda: ("session_search", {"query": word or "one"}),
        lambda: ("clarify", {"question": "Which?", "choices": ["a", "b"]}),
        lambda: (
            "checkpoint",
            {
                "action": draw.choice(("save", "list", "diff", "restore", "branch")),
                "name": draw.choice(("p", "1", "none", "")),
            },
        ),
        lambda: (
            "canvas",
            {"name": "c", "title": "C", "kind": draw.choice(("markdown", "svg", "odd")), "content": "# x"},
        ),
        lambda: ("skills_list", {}),
        lambda: ("skill_view", {"name": draw.choice(("planning", "none"))}),
        lambda: ("tool_search", {"query": word}),
        lambda: ("tool_call", {"name": draw.choice(("todo_read", "none")), "arguments": {}}),
        lambda: ("delegate_task", {"goal": "child: look at a.txt"}),
        lambda: ("vision_analyze", {"path": file}),
        lambda: (draw.choice(("read", "Bash", "read_flie", "mcp__none__x", "")), {"path": file}),
        lambda: (
            draw.choice(("read_file", "terminal", "patch")),
            draw.choice(("{", "[]", "null", '{"path": 5}', '{"command": null}', "")),
        ),
    )
    return draw.choice(fits)()


def one_reply(draw: random.Random) -> Reply:
    """Calls side by side, some of them twice the same."""
    wanted = [one_call(draw) for _ in range(draw.choice((1, 1, 1, 2, 3, 6)))]
    if draw.random() < 0.2:
        wanted.append(draw.choice(wanted))
    reply = calls(*wanted, text=draw.choice(("", "Let me look.")))
    if draw.random() < 0.1:
        return replace(reply, calls=tuple(replace(each, id=SAME) for each in reply.calls))
    return reply


SAME = "call_0"
"""The call id of a server that restarts its numbering in every answer."""
ODD = (
    *("cut_by_close", "cut_by_reset", "cut_cleanly", "closed_without_answer", "empty_body", "stream_error"),
    *("malformed_json", "json_of_something_else", "html_error_page"),
)
"""Faults of a provider after which the request is sent again."""


def odd_answer(draw: random.Random, reply: Reply) -> Reply:
    """What a provider sends in place of a reply, before it answers the same request properly."""
    kind = draw.choice((*ODD, "limit", "error", "empty choices"))
    if kind in ("limit", "error"):
        return refuse(429 if kind == "limit" else 500, "Later.", headers={"retry-after": "0"})
    if kind == "empty choices":
        return Reply(content_type="application/json", body=b'{"choices": []}')
    return BROKEN[kind].change(reply)


@dataclass
class Turn:
    """What happens in one turn, and how it has to end."""

    kind: str
    replies: list[Reply]
    outcome: str = "done"


def one_turn(draw: random.Random) -> Turn:
    replies = [one_reply(draw) for _ in range(draw.randrange(3))]
    kind = draw.choices(("done", "stopped", "turns", "model", "killed"), (12, 1, 1, 1, 1))[0]
    slow = calls(("terminal", {"command": "sleep 30"}), ("read_file", {"path": "a.txt"}))
    match kind:
        case "stopped":
            return Turn(kind, [*replies, slow], "interrupted")
        case "turns":
            return Turn(kind, [one_reply(draw) for _ in range(4)], "budget")
        case "model":
            return Turn(kind, [*replies, refuse(401, "no such key")], "failed")
        case "killed":
            return Turn(kind, [*replies, slow], "killed")
        case _:
            return Turn(kind, [*replies, say("Done.")])


@dataclass
class Stage:
    """The model of all sessions of a case: it follows the turn that runs."""

    draw: random.Random
    replies: list[Reply] = field(default_factory=list)
    folder: Path = Path()
    """The workspace, where somebody else saves files meanwhile."""
    reached: Callable[[], None] = lambda: None
    """Called with the last reply of a turn."""
    odd: bool = False
    """Whether the last answer was an odd one, so that the next is proper."""

    def __call__(self, request: Any) -> Reply:
        said = json.dumps([each for each in request.messages if each.get("role") == "user"])
        if ("child:" in said and "drawn" not in said) or not request.body.get("tools"):
            return say("Seen.")
        if not self.replies:
            return say("Nothing more.")
        if self.draw.random() < 0.2:
            saved = self.folder / self.draw.choice(FILES)
            saved.write_bytes(self.draw.choice((b"one\nmine\n", b"\0\xff", b"\x1b]0;title\x07one\n")))
        if self.draw.random() < 0.1 and not self.odd:
            self.odd = True
            return resolve(odd_answer(self.draw, self.replies[0]), request)
        self.odd = False
        reply = self.replies.pop(0)
        if not self.replies:
            self.reached()
        return resolve(reply, request)


async def played(b: Bench, engine: Engine, stage: Stage, turn: Turn, number: int) -> str:
    """How one turn ended."""
    stage.replies, stage.reached = [*turn.replies], lambda: None
    b.events.clear()
    running = asyncio.create_task(engine.run(f"drawn {number}"))
    if turn.kind == "stopped":
        stop = asyncio.Event()
        stage.reached = stop.set
        await asyncio.wait([running, asyncio.ensure_future(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(stage.draw.choice((0, 0.01, 0.1)))
        engine.interrupt()
    ended = await running
    assert bool(ended.error) == (turn.outcome == "failed"), ended
    return ended.outcome


def killed(b: Bench, session: str, stage: Stage, turn: Turn) -> asyncio.Task[int]:
    """A turn in a process of its own, which is killed at its last call."""
    arguments = ["-p", "drawn, killed", *(["--resume", session] if session else []), "--approve", "all"]
    environ = environment(b.home, b.server.base_url)
    process = subprocess.Popen(
        [*HERMES, *arguments],
        cwd=b.workspace,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stage.replies = [*turn.replies]
    stage.reached = lambda: (
        asyncio.get_running_loop().call_later(stage.draw.choice((0, 0.05, 0.3)), process.kill) and None
    )
    return asyncio.create_task(asyncio.to_thread(process.wait))


def answered_once(b: Bench) -> None:
    """Every call that began in the turn ended once; one that was stopped before it began ended as well."""
    began = Counter(each.call for each in b.seen(ToolStarted))
    ended = Counter(each.call for each in b.seen(ToolFinished))
    assert began <= ended, (began, ended)
    assert {number for call, number in ended.items() if call != SAME} <= {1}, (began, ended)


async def one_session(b: Bench, stage: Stage, seed: int) -> None:
    draw = stage.draw = random.Random(seed)
    (b.workspace / "src").mkdir(parents=True, exist_ok=True)
    stage.folder = b.workspace
    for name in FILES:
        (b.workspace / name).write_text("one\n" * (3_000 if name == "long.txt" else 3))
    session = ""
    turns = [one_turn(draw) for _ in range(draw.randrange(2, 5))] + [
        Turn("done", [one_reply(draw), say("Last.")])
    ]
    number = 0
    while turns:
        # `--continue` now and then: a new process, and what one session is goes on.
        if turns[0].kind == "killed":
            await killed(b, session, stage, turns.pop(0))
            session = session or await newest(b)
            continue
        steps = len(turns[0].replies) if turns[0].kind == "turns" else None
        chosen = {"resume": session} if session else {}
        async with b.engine(**chosen, max_steps=2 if steps else None) as engine:
            session = engine.session.id
            while turns and (turns[0].kind == "turns") is bool(steps) and turns[0].kind != "killed":
                turn = turns.pop(0)
                number += 1
                ended = await played(b, engine, stage, turn, number)
                assert ended == turn.outcome, (seed, number, turn.kind)
                answered_once(b)
                if draw.random() < 0.2:
                    with contextlib.suppress(HermesError):
                        assert await engine.compact(draw.choice(("", "the files")))
                if draw.random() < 0.3:
                    await one_move(draw, engine)
                if draw.random() < 0.2 or steps:
                    break


async def one_move(draw: random.Random, engine: Engine) -> None:
    """Undo, redo or rewind; what others changed meanwhile may stand in the way."""
    said = [node.id for node in engine.session.path if node.kind == "user"]
    with contextlib.suppress(HermesError):
        match draw.randrange(4):
            case 0:
                await engine.history.redo()
            case 1 if said:
                await engine.history.rewind(draw.choice(said), files=draw.random() < 0.5)
            case _:
                await engine.history.undo()


async def newest(b: Bench) -> str:
    async with await Store.open(b.home / "state.db") as store:
        rows = await store.list_sessions(1, 0, None)
    return rows[0].id if rows else ""


def traces(records: Sequence[logging.LogRecord], home: Path) -> list[str]:
    """What in logs has a traceback."""
    found = [each.getMessage() for each in records if each.exc_info and each.levelno >= logging.WARNING]
    for log in home.rglob("*.log"):
        text = log.read_text("utf-8", "replace")
        if "Traceback (most recent call last)" in text:
            found.append(text[text.index("Traceback") :][:3_000])
    return found


def cases() -> list[Any]:
    starts = range(0, SESSIONS, AT_ONCE)
    return [pytest.param(each, marks=() if each < USUAL else pytest.mark.thorough) for each in starts]


@pytest.mark.parametrize("start", cases())
async def test_sessions_drawn_by_lot_end_as_what_they_were(
    start: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(random.Random(start))
    async with bench(tmp_path, stage) as b:
        if start % (2 * AT_ONCE):
            b.config(TROUBLE)
        wrong: list[str] = []
        for seed in range(start, min(start + AT_ONCE, SESSIONS)):
            b.workspace = tmp_path / f"work{seed}"
            caplog.clear()
            try:
                await one_session(b, stage, seed)
            except AssertionError as error:
                wrong.append(f"{seed}: {error}"[:1_000])
            wrong += [f"{seed}: {each}" for each in traces(caplog.records, b.home)]
        assert not wrong, "\n".join(wrong)
