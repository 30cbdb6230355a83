"""Folders that are moved, renamed and swapped between turns, resumes and rollbacks, in an order drawn by lot.

No byte of another project is ever written, a refusal changes nothing, and what nobody touched since is
taken back where it was done.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from agent.errors import HermesError
from agent.events import SessionOpened, WorkspaceMoved
from tests.support.command import HERMES, environment
from tests.support.engines import Bench, bench
from tests.support.replies import Reply, call, calls, say

ORDERS, IN_SUITE, ACTIONS = 200, 2, 7
Contents = dict[str, str]


@dataclass
class Project:
    """One project, wherever it lies now."""

    name: str
    place: Path

    def contents(self) -> Contents:
        return {
            str(each.relative_to(self.place)): each.read_text()
            for each in sorted(self.place.rglob("*"))
            if each.is_file() and ".git" not in each.parts
        }


@dataclass
class Made:
    """A turn that changed a project, and what has to be there once it is taken back."""

    session: str
    project: Project
    position: int
    before: Contents
    after: Contents
    beside: bool
    """Whether another session or a person changed the project since the last turn of this one."""


@dataclass
class World:
    b: Bench
    draw: random.Random
    projects: list[Project]
    homes: dict[str, Project] = field(default_factory=dict)
    """The project that each session works in."""
    steps: dict[str, int] = field(default_factory=dict)
    made: list[Made] = field(default_factory=list)
    edits: Counter[str] = field(default_factory=Counter)
    """How often a person wrote into each project."""
    met: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often that was when a session worked in a project last."""
    log: list[str] = field(default_factory=list)
    names: int = 0

    def all(self) -> dict[str, Contents]:
        return {each.name: each.contents() for each in self.projects}

    def only(self, before: dict[str, Contents], allowed: Project | None) -> None:
        """Nothing but the project that is allowed has changed since."""
        for name, contents in self.all().items():
            if allowed is None or name != allowed.name:
                assert contents == before[name], (name, self.log)

    # What happens

    async def turn(self) -> None:
        where, session = self.draw.choice(self.projects), self.draw.choice(["", *self.homes])
        here = bool(session) and self.draw.random() < 0.25
        chosen: dict[str, Any] = {"resume": session, "here": here} if session else {}
        before = self.all()
        self.log.append(f"turn of {session or 'new'} from {where.name} at {where.place.name}, here={here}")
        self.b.events.clear()
        try:
            await self.b.turn("go", workspace=where.place, **chosen)
        except HermesError as error:
            self.log.append(f"refused: {error}")
            self.only(before, None)
            return
        opened = self.b.seen(SessionOpened)[0]
        worked = next(each for each in self.projects if str(each.place) == opened.workspace)
        if session and not here and worked is not self.homes[session]:
            # Another project has the name of its folder: worked in only from there, and this is said.
            assert worked is where, self.log
            assert self.b.seen(WorkspaceMoved)[0].left == opened.workspace, self.log
        if here:
            assert worked is where, self.log
        self.only(before, worked)
        now = worked.contents()
        assert now != before[worked.name], self.log
        self.homes[opened.session] = worked
        since = takewhile(lambda each: each.session != session, reversed(self.made)) if session else ()
        edits, last = self.edits[worked.name], (opened.session, worked.name)
        beside = any(each.project is worked for each in since) or self.met.get(last, edits) != edits
        self.met[last] = edits
        at = self.position(opened.session)
        self.made.append(Made(opened.session, worked, at, before[worked.name], now, beside))

    def position(self, session: str) -> int:
        """Where the last turn of a session began."""
        at = self.steps.get(session, 0)
        listed = self.rolled(self.homes[session].place, session, "--json")
        self.steps[session] = max((each["step"] for each in json.loads(listed.stdout)["steps"]), default=0)
        return at

    def rolled(self, cwd: Path, session: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = environment(self.b.home)
        return subprocess.run(
            [*HERMES, "rollback", "--session", session, *arguments],
            cwd=cwd,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )

    async def back(self) -> None:
        if not self.made:
            return
        made, cwd = self.made[-1], self.draw.choice(self.projects)
        before = self.all()
        is_free = made.project.contents() == made.after
        self.log.append(f"back of {made.session} to {made.position} from {cwd.name}")
        done = self.rolled(cwd.place, made.session, "--to", str(made.position), "--yes")
        assert "Traceback" not in done.stderr
        if done.returncode and cwd is not made.project:
            self.log.append(f"refused: {done.stderr}")
            self.only(before, None if "another folder" in done.stderr else made.project)
            done = self.rolled(made.project.place, made.session, "--to", str(made.position), "--yes")
        elif cwd is not made.project and "All files are as they were" in done.stdout:
            # The session worked in this one earlier: here only what it did here is taken back.
            self.only(before, None)
            done = self.rolled(made.project.place, made.session, "--to", str(made.position), "--yes")
        self.only(before, made.project)
        if is_free:
            # What another session or a person did since the position stays, and is told.
            assert done.returncode == 0 or made.beside, (done.stdout, done.stderr, self.log)
            assert made.project.contents() == made.before, (done.stdout, self.log)
        self.made.clear()
        self.steps.clear()
        self.homes.clear()

    async def rename(self) -> None:
        one = self.draw.choice(self.projects)
        self.names += 1
        one.place = one.place.rename(one.place.with_name(f"renamed{self.names}"))
        self.log.append(f"{one.name} is {one.place.name} now")

    async def swap(self) -> None:
        one, other = self.draw.sample(self.projects, 2)
        aside = one.place.with_name("aside")
        first, second = one.place, other.place
        first.rename(aside)
        second.rename(first)
        aside.rename(second)
        one.place, other.place = second, first
        self.log.append(f"{one.name} is {second.name} and {other.name} is {first.name} now")

    async def edit(self) -> None:
        one = self.draw.choice(self.projects)
        self.edits[one.name] += 1
        (one.place / "mine.txt").write_text(f"{self.draw.random()}\n")
        self.log.append(f"a person wrote into {one.name}")


def script(draw: random.Random) -> Any:
    state = {"count": 0}

    def reply(request: Any) -> Reply:
        if request.messages[-1].get("role") == "tool" or not request.body.get("tools"):
            return say("done")
        state["count"] += 1
        word = f"w{state['count']}"
        return draw.choice(
            (
                call(
                    "terminal",
                    command=f"echo {word} > f.txt; rm -f g.txt; mkdir -p d; echo {word} > d/{word}",
                ),
                call("write_file", path="f.txt", content=f"{word}\n"),
                calls(
                    ("write_file", {"path": f"{word}.txt", "content": word}),
                    ("terminal", {"command": f"echo {word} >> f.txt"}),
                ),
            )
        )

    return reply


@pytest.mark.parametrize(
    "seed",
    [pytest.param(each, marks=() if each < IN_SUITE else pytest.mark.thorough) for each in range(ORDERS)],
)
async def test_whatever_becomes_of_the_folders_only_the_own_project_is_written(
    seed: int, tmp_path: Path
) -> None:
    draw = random.Random(seed)
    async with bench(tmp_path, script(draw)) as b:
        b.config("sandbox:\n  mode: 'off'\n")
        root = tmp_path.resolve()
        projects = [Project(name, root / name) for name in ("alpha", "beta", "gamma")]
        for each in projects:
            each.place.mkdir()
            for name in ("f.txt", "g.txt", "only.txt"):
                (each.place / name).write_text(f"{name} of {each.name}\n")
            if draw.random() < 0.4:
                subprocess.run(["git", "init", "-q"], cwd=each.place, check=True)
        world = World(b, draw, projects)
        await world.turn()
        actions = (world.turn, world.turn, world.back, world.back, world.rename, world.swap, world.edit)
        for _ in range(ACTIONS):
            await draw.choice(actions)()
        await world.back()
