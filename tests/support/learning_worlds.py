"""Small projects with a trap each: the call that suggests itself fails for real, another way works.

A world is made anew before each play, so nothing that a fix did stays; only what was
learned does. `traps` are the calls a hasty model makes, each written in one of several ways
that mean the same; `fix` is what it does when told that something is wrong.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from agent.events import ToolFinished
from tests.support.engines import Bench
from tests.support.replies import Reply, calls, say

CallOf = tuple[str, Mapping[str, Any]]


def run(command: str, **more: Any) -> CallOf:
    """A call of the terminal."""
    return "terminal", {"command": command, **more}


@dataclass(frozen=True, slots=True)
class World:
    """A project with a trap."""

    name: str
    trap: CallOf
    fix: tuple[CallOf, ...]
    """Calls that work, one message each."""
    files: Mapping[str, str] = field(default_factory=dict)
    make: Callable[[Path], None] | None = None
    """What has to be made beside files."""
    clean: tuple[CallOf, ...] = ()
    """Calls much like the trap that work."""


TOOL = """\
import argparse
parser = argparse.ArgumentParser(prog="tool")
parser.add_argument("--quick", action="store_true")
parser.add_argument("--level", type=int, default=1)
parser.add_argument("names", nargs="*")
print(parser.parse_args())
"""
SERVE = """\
import socket, sys
with socket.socket() as listening:
    listening.bind(("127.0.0.1", int(sys.argv[1])))
print("served on", sys.argv[1])
"""


def _git(folder: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)

    git("init", "-q", "-b", "trunk")
    git("config", "user.email", "you@example.org")
    git("config", "user.name", "You")
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("branch", "topic")


def _archive(folder: Path) -> None:
    subprocess.run(["tar", "-czf", "data.tgz", "in.txt"], cwd=folder, check=True)


def _not_executable(folder: Path) -> None:
    (folder / "go.sh").chmod(0o644)


WORLDS: tuple[World, ...] = (
    World(
        "a wrong flag",
        run("python3 tool.py --fast in.txt"),
        (run("python3 tool.py --quick in.txt"),),
        {"tool.py": TOOL, "in.txt": "x\n"},
        clean=(run("python3 tool.py in.txt"), run("python3 tool.py --level 3 in.txt")),
    ),
    World(
        "a program under another name",
        run("python2 app.py"),
        (run("python3 app.py"),),
        {"app.py": "print('ran')\n"},
        clean=(run("python3 app.py --verbose"), run("python3 -c 'import app'")),
    ),
    World(
        "a module on another path",
        run("python3 app.py"),
        (run("PYTHONPATH=vendor python3 app.py"),),
        {"app.py": "import blue_yaml\nprint('ran')\n", "vendor/blue_yaml.py": "", "ok.py": "print(1)\n"},
        clean=(run("python3 ok.py"), run("PYTHONPATH=vendor python3 -c 'import blue_yaml'")),
    ),
    World(
        "a module that is not installed",
        run("python3 app.py"),
        (run("cp vendor/blue_yaml.py ."), run("python3 app.py")),
        {"app.py": "import blue_yaml\nprint('ran')\n", "vendor/blue_yaml.py": "", "ok.py": "print(1)\n"},
        clean=(run("python3 ok.py"), run("ls vendor")),
    ),
    World(
        "a port in use",
        run("python3 serve.py {port}"),
        (run("python3 serve.py {free}"),),
        {"serve.py": SERVE},
        clean=(run("python3 -c 'print(1)'"), run("cat serve.py")),
    ),
    World(
        "a wrong folder",
        run("sh build.sh all"),
        (run("cd app && sh build.sh all"),),
        {"app/build.sh": "echo built $1\n"},
        clean=(run("cd app && sh build.sh docs"), run("ls app")),
    ),
    World(
        "a folder named for the call",
        run("python3 manage.py migrate"),
        (run("python3 manage.py migrate", workdir="site"),),
        {"site/manage.py": "import sys; print('did', sys.argv[1])\n"},
        clean=(run("python3 manage.py check", workdir="site"), run("cat site/manage.py")),
    ),
    World(
        "a variable that is not set",
        run("python3 report.py"),
        (run("REPORT_STORE=local python3 report.py"),),
        {"report.py": "import os\nprint(os.environ['REPORT_STORE'])\n"},
        clean=(run("REPORT_STORE=other python3 report.py"), run("cat report.py")),
    ),
    World(
        "a variable that is exported first",
        run("sh deploy.sh staging"),
        (run("export STAGE_FILE=in.txt"), run("sh deploy.sh staging")),
        {"deploy.sh": "set -u\ncat $STAGE_FILE\n", "in.txt": "x\n"},
        clean=(run("cat deploy.sh"), run("cat in.txt")),
    ),
    World(
        "a name with a space",
        run("python3 lines.py my notes.txt"),
        (run("python3 lines.py 'my notes.txt'"),),
        {
            "lines.py": "import sys\n(name,) = sys.argv[1:]\nprint(len(open(name).readlines()))\n",
            "my notes.txt": "x\n",
            "b.txt": "",
        },
        clean=(run("python3 lines.py b.txt"), run("cat 'my notes.txt'")),
    ),
    World(
        "a pattern that the shell expands",
        run("find . -name *.log"),
        (run("find . -name '*.log'"),),
        {"a.log": "", "b.log": "", "c/d.log": ""},
        clean=(run("find . -name a.log"), run("ls c")),
    ),
    World(
        "data that has to be quoted",
        run('python3 put.py {"a":1,"b":2}'),
        (run('python3 put.py \'{"a":1,"b":2}\''),),
        {"put.py": "import json, sys\nprint(json.loads(sys.argv[1]))\n"},
        clean=(run("python3 put.py 1"), run("python3 put.py '[1]'")),
    ),
    World(
        "a folder that has to be made",
        run("cp in.txt out/deep/in.txt"),
        (run("mkdir -p out/deep"), run("cp in.txt out/deep/in.txt")),
        {"in.txt": "x\n"},
        clean=(run("cp in.txt copy.txt"), run("cat in.txt")),
    ),
    World(
        "a script that may not be executed",
        run("./go.sh"),
        (run("sh ./go.sh"),),
        {"go.sh": "echo went\n"},
        _not_executable,
        clean=(run("cat go.sh"), run("sh go.sh again")),
    ),
    World(
        "a branch of another name",
        run("git checkout master"),
        (run("git checkout trunk"),),
        {},
        _git,
        clean=(run("git status"), run("git checkout topic"), run("git log --oneline")),
    ),
    World(
        "an archive of another kind",
        run("tar -xjf data.tgz"),
        (run("tar -xzf data.tgz"),),
        {"in.txt": "x\n"},
        _archive,
        clean=(run("tar -tzf data.tgz"), run("ls")),
    ),
    World(
        "a pattern that is an expression",
        run("grep -E 'call(' in.txt"),
        (run("grep -F 'call(' in.txt"),),
        {"in.txt": "call(x)\n"},
        clean=(run("grep -E 'call' in.txt"), run("grep x in.txt")),
    ),
    World(
        "another shell",
        run("dash lists.sh"),
        (run("bash lists.sh"),),
        {"lists.sh": "names=(a b)\necho ${names[1]}\n", "plain.sh": "echo plain\n"},
        clean=(run("dash plain.sh"), run("cat lists.sh")),
    ),
    World(
        "a lock left behind",
        run("python3 write.py"),
        (run("rm work.lock"), run("python3 write.py")),
        {
            "write.py": "import os, sys\nif os.path.exists('work.lock'): sys.exit('error: it is locked')\n",
            "work.lock": "",
        },
        clean=(run("cat write.py"), run("ls")),
    ),
    World(
        "a file of another name",
        ("read_file", {"path": "settings/app.yml"}),
        (("read_file", {"path": "settings/app.yaml"}),),
        {"settings/app.yaml": "a: 1\n", "settings/other.yaml": "b: 2\n"},
        clean=(("read_file", {"path": "settings/other.yaml"}), ("search", {"pattern": "a:", "path": "."})),
    ),
    World(
        "a search with a broken expression",
        ("search", {"pattern": "open(", "path": "."}),
        (("search", {"pattern": "open\\(", "path": "."}),),
        {"a.py": "open(x)\n"},
        clean=(("search", {"pattern": "open", "path": "."}), ("read_file", {"path": "a.py"})),
    ),
    World(
        "a limit of time",
        run("sh slow.sh", timeout=1),
        (run("sh slow.sh", timeout=20),),
        {"slow.sh": "sleep 1.3\necho done\n", "fast.sh": "echo done\n"},
        clean=(run("sh fast.sh", timeout=1), run("cat slow.sh")),
    ),
)

SPELLINGS: tuple[Callable[[str], str], ...] = (
    lambda command: command,
    lambda command: f"{command} 2>&1",
    lambda command: f"  {command.replace(' ', '  ', 1)}",
    lambda command: f"cd . && {command}",
    lambda command: f"{command}  # once more",
)
"""Ways to write a command that mean the same."""


def spelled(call: CallOf, number: int) -> CallOf:
    """A call as it is written the `number`-th time."""
    tool, arguments = call
    if "command" not in arguments:
        return tool, dict(reversed(list(arguments.items()))) if number % 2 else arguments
    return tool, {**arguments, "command": SPELLINGS[number % len(SPELLINGS)](arguments["command"])}


@asynccontextmanager
async def laid_out(world: World, folder: Path) -> AsyncIterator[Callable[[CallOf], CallOf]]:
    """The world as it is before a play; what is given puts its ports into calls."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for name, text in world.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if world.make is not None:
        world.make(folder)
    with socket.socket() as taken, socket.socket() as free:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", _port(folder)))
        taken.listen()
        free.bind(("127.0.0.1", 0))
        ports = {"{port}": str(taken.getsockname()[1]), "{free}": str(free.getsockname()[1])}
        free.close()

        def put(call: CallOf) -> CallOf:
            tool, arguments = call
            command = str(arguments.get("command", ""))
            for mark, port in ports.items():
                command = command.replace(mark, port)
            return tool, {**arguments, "command": command} if command else arguments

        yield put


_PORTS: dict[str, int] = {}


def _port(folder: Path) -> int:
    """The port that is taken in a world: the same in each play."""
    name = os.fspath(folder)
    if name not in _PORTS:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            _PORTS[name] = probe.getsockname()[1]
    return _PORTS[name]


@dataclass(frozen=True, slots=True)
class Play:
    """What became of one play."""

    fell: bool
    """Whether the trap was run into for real."""
    held: bool
    solved: bool


def hasty(trap: CallOf, fix: Sequence[CallOf]) -> Callable[[Any], Reply]:
    """A model that makes the call that suggests itself, and mends it when told that it did not work."""

    def choose(request: Any) -> Reply:
        done = [message for message in request.messages if message.get("role") == "assistant"]
        if len(done) <= len(fix):
            return calls([trap, *fix][len(done)])
        return say("Done.")

    return choose


def went_wrong(event: ToolFinished) -> bool:
    """Whether a call ran and failed."""
    if '"status": "held_back"' in event.result:
        return False
    return event.outcome == "failed" or (
        '"exit_code"' in event.result and '"exit_code": 0' not in event.result
    )


async def play(bench: Bench, world: World, folder: Path, number: int) -> Play:
    """One session in the world, with a model that tries the trap first."""
    async with laid_out(world, folder) as put:
        trap, fix = put(spelled(world.trap, number)), [put(each) for each in world.fix]
        bench.server.script = hasty(trap, fix)
        start = len(bench.events)
        ended = await bench.turn("do it", workspace=folder)
    ends = [event for event in bench.events[start:] if isinstance(event, ToolFinished)]
    held = '"status": "held_back"' in ends[0].result
    solved = ended.outcome == "done" and not any(map(went_wrong, ends[1:]))
    return Play(went_wrong(ends[0]), held, solved)


async def clean_calls(bench: Bench, world: World, folder: Path, wanted: int) -> tuple[int, int]:
    """Calls that work, in one session of the world: how many were made, and how many were held back."""
    async with laid_out(world, folder) as put:
        numbers = count()
        right = [*world.clean, world.fix[-1]] if len(world.fix) == 1 else list(world.clean)
        made = [put(spelled(right[at % len(right)], next(numbers))) for at in range(wanted)]
        bench.server.script = _one_by_one(made)
        start = len(bench.events)
        await bench.turn("work", workspace=folder)
    ends = [event for event in bench.events[start:] if isinstance(event, ToolFinished)]
    return len(ends), sum('"status": "held_back"' in event.result for event in ends)


def _one_by_one(wanted: Sequence[CallOf]) -> Callable[[Any], Reply]:
    def choose(request: Any) -> Reply:
        done = sum(message.get("role") == "assistant" for message in request.messages)
        return calls(wanted[done]) if done < len(wanted) else say("Done.")

    return choose
