"""What a program changes unasked where something runs later goes back before anything else happens."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.events import ApprovalAsked, Decision, Event, Noticed
from agent.session.engine import Engine
from agent.workspace.checkpoints.store import CheckpointStore
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say

PLACES = (
    ".envrc",
    ".npmrc",
    ".pre-commit-config.yaml",
    ".gitlab-ci.yml",
    ".vscode/tasks.json",
    ".github/workflows/ci.yml",
    ".husky/pre-commit",
    ".hermes/permissions.yaml",
    "lib/.envrc",
    "new/folder/.vscode/settings.json",
    "lib/.git/hooks/pre-commit",
)
WAYS = {
    "echo": "echo evil > {place}",
    "open": "python3 -c \"open('{place}', 'w').write('evil')\"",
    "link": "ln -s {top}/{place} way; echo evil > way; rm way",
    "rename": "echo evil > fresh; mv fresh {place}",
    "folder": "mkdir -p made; echo evil > made/{name}; rmdir {folder}; mv made {folder}",
}


def everything(top: Path) -> dict[str, str]:
    """Each file below, with what it holds."""
    return {str(path.relative_to(top)): path.read_text() for path in sorted(top.rglob("*")) if path.is_file()}


def furnish(b: Bench) -> None:
    (b.workspace / "lib").mkdir()
    subprocess.run(["git", "init", "-q", str(b.workspace / "lib")], check=True)
    (b.workspace / "code").write_text("code")


def act(b: Bench, text: str) -> Any:
    """A script replies with a program that runs `text`, and ends."""
    (b.workspace / "act.sh").write_text(text)
    b.server.script = by_step([call("terminal", command="bash act.sh"), say("done")])


def script(b: Bench, way: str) -> str:
    lines = ["touch made-by-it"]
    lines += [f"mkdir -p {place.rpartition('/')[0] or '.'}" for place in PLACES]
    for place in PLACES:
        folder, _, name = place.rpartition("/")
        if way == "folder" and folder in ("", "lib"):
            continue
        lines.append(WAYS[way].format(place=place, folder=folder or ".", name=name, top=b.workspace))
    return "\n".join([*lines, "rm -rf made fresh way"])


def result(b: Bench, number: int) -> dict[str, Any]:
    """What the model was told of a call, counted from 1."""
    said = [m for m in b.server.requests[-1].messages if m.get("role") == "tool"]
    return json.loads(said[number - 1]["content"])


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["normal", "yolo"])
@pytest.mark.parametrize("way", list(WAYS))
async def test_what_a_program_makes_at_a_guarded_place_goes_away(tmp_path: Path, way: str, mode: str) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        furnish(b)
        act(b, script(b, way))
        before = everything(b.workspace)
        await b.turn("go", attended=False, approve=mode)
        after = everything(b.workspace)
        assert "made-by-it" in after.keys() - before.keys(), result(b, 1)
        assert {name: text for name, text in after.items() if name != "made-by-it"} == before
        assert "runs something later" in result(b, 1)["note"] and "write_file" in result(b, 1)["note"]
        assert [each for each in b.seen(Noticed) if "was taken back" in each.text]


async def test_what_a_program_makes_where_a_guarded_link_leads_goes_away(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        (b.workspace / ".envrc").symlink_to("later")
        act(b, "touch made-by-it; echo evil > later; echo fine > later-on")
        await b.turn("go", attended=False, approve="normal")
        assert {"act.sh", "made-by-it", "later-on"} == everything(b.workspace).keys(), result(b, 1)
        assert (b.workspace / ".envrc").is_symlink()


@asynccontextmanager
async def attended(b: Bench, *choices: str) -> AsyncIterator[tuple[Engine, list[ApprovalAsked]]]:
    """An engine with a person who answers what is asked in this order."""
    asked: list[ApprovalAsked] = []
    async with b.engine(attended=True, approve="normal") as engine:

        def answer(event: Event) -> None:
            if isinstance(event, ApprovalAsked):
                choice = choices[len(asked)] if len(asked) < len(choices) else "deny"
                event.reply.set_result(Decision(choice))  # type: ignore[arg-type]
                asked.append(event)

        engine.stream.subscribe(answer)
        yield engine, asked


WRITE = "mkdir -p .vscode; echo mine > .vscode/tasks.json; echo mine > .envrc; echo x > code"


@pytest.mark.thorough
@pytest.mark.parametrize("tool", ["terminal", "script"])
async def test_a_person_is_asked_and_may_keep_it(tmp_path: Path, tool: str) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        if tool == "terminal":
            act(b, WRITE)
        else:
            code = f"import os\nos.system({WRITE!r})"
            b.server.script = by_step([call("execute_code", code=code), say("done")])
        async with attended(b, "once") as (engine, asked):
            await engine.run("go")
            assert (
                (b.workspace / ".envrc").read_text()
                == (b.workspace / ".vscode/tasks.json").read_text()
                == "mine\n"
            )
            [question] = asked
            assert ".envrc" in question.headline and ".vscode/tasks.json" in question.headline
            assert "kept the change" in result(b, 1)["note"]


@pytest.mark.thorough
async def test_while_the_person_is_asked_nothing_stands_there(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        act(b, WRITE)
        seen: list[bool] = []
        async with b.engine(attended=True, approve="normal") as engine:

            def answer(event: Event) -> None:
                if isinstance(event, ApprovalAsked):
                    seen.append((b.workspace / ".envrc").exists() or (b.workspace / ".vscode").exists())
                    event.reply.set_result(Decision("deny"))

            engine.stream.subscribe(answer)
            await engine.run("go")
        assert seen == [False] and not (b.workspace / ".envrc").exists()
        assert (b.workspace / "code").read_text() == "x\n"
        assert "Denied by the user" in result(b, 1)["note"]


PLACE = ".pre-commit-config.yaml"
IMPORT = "from hermes_tools import *\n"
OPEN = f"open('{PLACE}', 'w').write('mine')"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "act",
    [
        call("terminal", command=f"printf mine > {PLACE}; touch .npmrc"),
        call("write_file", path=PLACE, content="mine"),
        call("execute_code", code=f"{IMPORT}print(write_file(path='{PLACE}', content='mine'))"),
        call("execute_code", code=f"{IMPORT}print(terminal(command='printf mine > {PLACE}'))"),
        call("terminal", command=f'python3 -c "{OPEN}"', outside=True),
    ],
    ids=["command", "file tool", "file tool of a script", "command of a script", "outside"],
)
@pytest.mark.parametrize("stands", [False, True])
async def test_what_a_person_said_yes_to_is_not_asked_again(
    tmp_path: Path, act: object, stands: bool
) -> None:
    async with bench(tmp_path, by_step([act, say("done")])) as b:
        if stands:
            (b.workspace / PLACE).write_text("before")
            (b.workspace / ".npmrc").write_text("")
        async with attended(b, "once") as (engine, asked):
            await engine.run("go")
        assert (b.workspace / PLACE).read_text() == "mine", b.server.requests[-1].messages[-1]
        assert len(asked) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("place", [".npmrc", ".envrc"])
async def test_a_yes_to_one_place_is_none_to_another(tmp_path: Path, place: str) -> None:
    code = f"{IMPORT}write_file(path='{PLACE}', content='mine')\nopen('{place}', 'w').write('evil')"
    async with bench(tmp_path, by_step([call("execute_code", code=code), say("done")])) as b:
        async with attended(b, "once", "deny") as (engine, asked):
            await engine.run("go")
        # Files that hold secrets are hidden from the next script, which waits already.
        assert everything(b.workspace) == {PLACE: "mine"}, result(b, 1)
        assert [place in each.headline for each in asked] == [False, True]


def git(top: Path, *words: str) -> str:
    argv = ["git", "-C", str(top), "-c", "user.name=a", "-c", "user.email=a@b.c", *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


EVERYDAY = """
git init -q -b main . && touch a && git add a && git -c user.name=a -c user.email=a@b.c commit -qm a
git clone -q . sub && cd sub && git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m b
git checkout -q -b other && git branch -q -u main && git remote add more ../other; cd ..
mkdir -p node_modules/x .venv/lib/site-packages .yarn/cache .hermes/scratch .github
touch node_modules/x/.npmrc .venv/lib/site-packages/x.pth .yarn/cache/x .yarn/install-state.gz
touch .hermes/scratch/x .github-notes envrc .github/dependabot.yml
"""


@pytest.mark.thorough
async def test_everyday_work_is_not_asked_about(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        act(b, EVERYDAY)
        async with attended(b) as (engine, asked):
            await engine.run("go")
        assert not asked
        assert not [each for each in b.seen(Noticed) if "runs something later" in each.text]
        assert (b.workspace / "sub/.git/config").exists() and (b.workspace / ".yarn/cache/x").exists()


@pytest.mark.thorough
async def test_what_comes_with_a_clone_is_told(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        origin = b.workspace / "origin"
        (origin / ".vscode").mkdir(parents=True)
        (origin / ".vscode/tasks.json").write_text("{}")
        git(origin, "init", "-q")
        git(origin, "add", ".")
        git(origin, "commit", "-qm", "first")
        act(b, "git clone -q origin sub")
        await b.turn("go", attended=False)
        assert (b.workspace / "sub/.vscode/tasks.json").exists()
        [told] = [each.text for each in b.seen(Noticed) if "fetched" in each.text]
        assert "sub/.vscode/tasks.json" in told


@pytest.mark.thorough
async def test_a_new_repository_of_the_workspace_itself_opens_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        act(b, "git init -q .; echo evil > .envrc; git init -q sub; git -C sub config core.fsmonitor ./evil")
        await b.turn("go", attended=False)
        assert not (b.workspace / ".envrc").exists() and (b.workspace / ".git/HEAD").exists()
        assert "fsmonitor" not in "".join(path.read_text() for path in b.workspace.rglob("config"))


async def test_what_was_taken_back_can_be_had_again(tmp_path: Path) -> None:
    async with bench(tmp_path, lambda *_: None) as b:
        act(b, WRITE)
        await b.turn("go", attended=False)
        store = CheckpointStore(b.home / "checkpoints")
        [session] = store.sessions()
        steps = store.line(session).steps()
        written = {change.path: change.after for step in steps for change in step.changes if change.after}
        assert ".envrc" in written and store.objects.read(written[".envrc"].digest or "") == b"mine\n"
