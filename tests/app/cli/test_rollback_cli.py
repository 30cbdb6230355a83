"""`hermes rollback` as a person runs it, on a session that an agent really had."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from agent.core.store.locks import SessionLock
from agent.core.store.store import Store
from agent.workspace.checkpoints.entries import PathChange
from agent.workspace.checkpoints.file_capture import capture_path
from agent.workspace.checkpoints.restore import apply
from agent.workspace.checkpoints.restore.path_replacement import Move
from agent.workspace.checkpoints.store import CheckpointStore
from tests.support import command
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say

DOCS = Path(__file__).resolve().parents[3] / "docs" / "going-back.md"
REPLIES = (
    call("write_file", path="report.txt", content="one\ntwo\nthree\n"),
    call("checkpoint", action="save", name="draft"),
    call("terminal", command="sed -i s/two/2/ report.txt; rm todo.txt; mkdir out; echo x >out/data.csv"),
    say("done"),
)


async def had(folder: Path) -> Bench:
    """What is left of a session with two steps, when it is over."""
    async with bench(folder, by_step(list(REPLIES))) as b:
        (b.workspace / "todo.txt").write_text("ask Ada\n")
        assert (await b.turn("write the report")).outcome == "done"
        return b


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, Path]:
    """A session that is over, and a copy of all it left."""
    folder = tmp_path_factory.mktemp("session")
    b = asyncio.run(had(folder))
    copy = tmp_path_factory.mktemp("copy") / "all"
    shutil.copytree(folder, copy, symlinks=True)
    return b, copy


@pytest.fixture
def over(kept: tuple[Bench, Path]) -> Bench:
    """The session as it was when it ended, whatever the test before did to it."""
    b, copy = kept
    folder = b.workspace.parent
    shutil.rmtree(folder)
    shutil.copytree(copy, folder, symlinks=True)
    return b


def rollback(b: Bench, *arguments: str, stdin: str = "") -> CompletedProcess[str]:
    environ = command.environment(b.home)
    return command.run("rollback", *arguments, env=environ, cwd=b.workspace, stdin=stdin)


def answered(b: Bench, answer: str, *arguments: str) -> tuple[int, str]:
    """Exit code and output on a terminal on which a person answers."""
    main, child = pty.openpty()
    process = subprocess.Popen(
        [*command.HERMES, "rollback", *arguments],
        env=command.environment(b.home),
        cwd=b.workspace,
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    )
    os.close(child)
    os.write(main, f"{answer}\n".encode())
    output = b""
    while select.select([main], [], [], 60)[0]:
        try:
            piece = os.read(main, 65_536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(main)
    return process.wait(60), output.decode()


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


AFTER_1 = {"report.txt": "one\ntwo\nthree\n", "todo.txt": "ask Ada\n"}
AFTER_2 = {"report.txt": "one\n2\nthree\n", "out/data.csv": "x\n"}


@pytest.mark.thorough
def test_the_worked_example_of_the_docs_is_what_happens(over: Bench) -> None:
    b = over
    # As the docs take it: what the search path leads to is called by its name alone.
    path = os.pathsep.join((str(Path(sys.prefix, "bin")), os.environ["PATH"]))
    examples = re.findall(r"```console\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert examples
    for example in examples:
        for block in re.split(r"^\$ ", example, flags=re.MULTILINE)[1:]:
            typed, _, expected = block.partition("\n")
            if typed.startswith("hermes "):
                words = typed.split()[1:]
                done = command.run(*words, env=command.environment(b.home, PATH=path), cwd=b.workspace)
            else:
                done = subprocess.run(
                    ["sh", "-c", typed], cwd=b.workspace, capture_output=True, text=True, check=False
                )
            printed = done.stdout + done.stderr
            printed = printed.replace(str(b.workspace), "/projects/report")
            assert neutral(printed) == neutral(expected), typed


def neutral(text: str) -> str:
    """Without what differs from day to day: ids and times."""
    text = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "SESSION", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "TIME", text)
    return re.sub(r"index [0-9a-f]{40}\.\.[0-9a-f]{40}", "index", text).strip()


@pytest.mark.thorough
def test_a_list_is_json_too(over: Bench) -> None:
    record = json.loads(rollback(over, "--json").stdout)
    assert (record["first"], record["last"], record["checkpoints"]) == (0, 2, {"draft": 1})
    assert record["steps"][0]["paths"] == ["report.txt"]
    assert "out/data.csv" in record["steps"][1]["paths"]
    one = json.loads(rollback(over, "--json", "--file", "out").stdout)
    assert [step["step"] for step in one["steps"]] == [2]


@pytest.mark.thorough
def test_files_go_back_and_forth(over: Bench) -> None:
    done = rollback(over, "--to", "draft", "--yes")
    assert done.returncode == 0, done.stderr
    assert tree(over.workspace) == AFTER_1
    assert "this is step 3" in done.stdout
    assert rollback(over, "--to", "2", "--yes").returncode == 0
    assert tree(over.workspace) == AFTER_2
    assert rollback(over, "--to", "0", "--yes").returncode == 0
    assert tree(over.workspace) == {"todo.txt": "ask Ada\n"}
    again = rollback(over, "--to", "0", "--yes")
    assert (again.returncode, again.stdout) == (0, "All files are as they were after step 0.\n")


@pytest.mark.thorough
def test_one_file_goes_back_alone(over: Bench) -> None:
    below = over.workspace / "out"
    environ = command.environment(over.home)
    session = json.loads(rollback(over, "--json").stdout)["session"]
    done = command.run(
        "rollback", "--to", "1", "--file", "../todo.txt", "--yes", "--session", session,
        env=environ, cwd=below,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"rollback --to 2 --session {session}\n" in done.stdout
    assert tree(over.workspace) == AFTER_2 | {"todo.txt": "ask Ada\n"}
    outside = rollback(over, "--to", "1", "--file", "/etc/passwd", "--yes")
    assert outside.returncode == 2
    assert "where the session works" in outside.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("choice", "code", "text"),
    [
        (None, 1, "zero\none\n2\nthree\n"),
        ("mine", 0, "zero\none\n2\nthree\n"),
        ("checkpoint", 0, "one\ntwo\nthree\n"),
        ("merge", 0, "zero\none\ntwo\nthree\n"),
    ],
)
def test_what_the_person_changed_since_is_theirs_to_decide(
    over: Bench, choice: str | None, code: int, text: str
) -> None:
    (over.workspace / "report.txt").write_text("zero\none\n2\nthree\n")
    done = rollback(over, "--to", "1", "--yes", *(("--conflicts", choice) if choice else ()))
    assert done.returncode == code
    assert tree(over.workspace) == {"report.txt": text, "todo.txt": "ask Ada\n"}
    stays = "▲ report.txt stays as it is: changed since by somebody else"
    assert (stays in done.stdout) == (choice in (None, "mine"))


@pytest.mark.thorough
def test_files_that_only_others_changed_are_not_called_as_they_were(over: Bench) -> None:
    b = over
    shutil.rmtree(b.workspace / "out")
    for number in range(50):
        (b.workspace / f"mine{number:02}.txt").write_text("mine\n")
    told = rollback(b, "--to", "2", "--yes")
    assert told.returncode == 1
    assert "as they were" not in told.stdout
    assert "▲ mine00.txt stays as it is: changed since by somebody else" in told.stdout
    assert "▲ 32 more stay as they are" in told.stdout
    assert (b.workspace / "mine49.txt").exists()
    assert rollback(b, "--to", "2", "--conflicts", "mine").returncode == 0
    listed = json.loads(rollback(b, "--to", "2", "--yes", "--json").stdout)
    assert (listed["step"], len(listed["left"])) == (None, 52)
    done = rollback(b, "--to", "2", "--conflicts", "checkpoint", "--yes")
    assert done.returncode == 0, done.stdout
    assert tree(b.workspace) == AFTER_2
    assert rollback(b, "--to", "3", "--yes").stdout == "All files are as they were after step 3.\n"
    assert rollback(b, "--to", "2", "--yes").returncode == 0
    assert (b.workspace / "mine49.txt").exists() and not (b.workspace / "out").exists()


def test_json_tells_what_was_done_and_what_was_not(over: Bench) -> None:
    (over.workspace / "report.txt").write_text("mine\n")
    done = rollback(over, "--to", "1", "--yes", "--json")
    record = json.loads(done.stdout)
    assert (done.returncode, record["position"], record["step"]) == (1, 1, 3)
    assert record["left"] == [{"path": "report.txt", "reason": "changed since by somebody else"}]
    assert "todo.txt" in record["restored"]
    assert {"path": "report.txt", "state": "conflict", "reason": "changed since by somebody else"} in record[
        "items"
    ]


@pytest.mark.thorough
def test_it_asks_first_and_shows_what_would_happen(over: Bench) -> None:
    (over.workspace / "report.txt").write_text("mine\n")
    code, output = answered(over, "n", "--to", "1")
    assert code == 4
    assert "report.txt  ▲ changed since by somebody else; stays" in output
    assert "todo.txt  comes back  +1 −0" in output
    assert "out/data.csv  goes away  +0 −1" in output
    assert "leave 1 as it is? [y/N]" in output
    assert "Nothing was changed." in output
    assert tree(over.workspace) == AFTER_2 | {"report.txt": "mine\n"}
    code, _ = answered(over, "y", "--to", "1", "--conflicts", "checkpoint")
    assert code == 0
    assert tree(over.workspace) == AFTER_1


@pytest.mark.thorough
def test_without_anybody_to_answer_nothing_happens(over: Bench) -> None:
    for options in ((), ("--json",)):
        done = rollback(over, "--to", "1", *options, stdin="y\n")
        assert done.returncode == 2
        assert "give --yes" in done.stderr
    assert tree(over.workspace) == AFTER_2


@pytest.mark.thorough
def test_it_works_beside_a_running_session_and_says_so(over: Bench) -> None:
    session = json.loads(rollback(over, "--json").stdout)["session"]
    lock = SessionLock(over.home / "run", session)
    assert lock.acquire()
    try:
        _, output = answered(over, "y", "--to", "1")
        assert "works on this session right now" in output
        assert tree(over.workspace) == AFTER_1
        assert lock.path.exists()
    finally:
        lock.release()


@pytest.mark.thorough
def test_a_restore_that_was_cut_off_is_finished_first(over: Bench) -> None:
    store = CheckpointStore(over.home / "checkpoints")
    session = json.loads(rollback(over, "--json").stdout)["session"]
    now = capture_path(over.workspace, "report.txt", store.objects, limit=10**6)
    (step, *_) = store.line(session).steps()
    wanted = next(change.after for change in step.changes if change.path == "report.txt")
    begun = apply.new_restore(
        session, session, "back to step 1", str(over.workspace), [Move("report.txt", now, wanted)]
    )
    with pytest.raises(KeyboardInterrupt), apply.record_restore(store.pending, begun):
        raise KeyboardInterrupt
    done = rollback(over)
    assert "A restore that was cut off is finished (back to step 1): 1 path restored." in done.stderr
    assert (over.workspace / "report.txt").read_text() == AFTER_1["report.txt"]
    assert store.line(session).steps()[-1].changes == (PathChange("report.txt", now, wanted),)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--to", "9", "--yes"), 1, "There is no step 9; the last one is 2."),
        (
            ("--to", "dreft", "--yes"),
            2,
            "neither the number of a step nor a checkpoint (draft); `",
        ),
        (("--to", "1", "--diff", "1"), 2, "--diff and --to exclude each other; give one of them."),
        (("--conflicts", "mine"), 2, "--conflicts goes with --to"),
        (("--session", "nobody"), 1, "nobody"),
        (("--to", "\x1b[2J", "--yes"), 2, "neither the number"),
    ],
)
def test_mistakes_are_one_sentence(over: Bench, arguments: tuple[str, ...], code: int, sentence: str) -> None:
    done = rollback(over, *arguments)
    assert done.returncode == code
    assert sentence in done.stderr
    assert "\x1b" not in done.stderr
    assert tree(over.workspace) == AFTER_2


@pytest.mark.thorough
def test_where_nothing_is_kept_nothing_is_made(tmp_path: Path) -> None:
    home = tmp_path / "home"
    done = command.run("rollback", env=command.environment(home), cwd=tmp_path)
    assert done.returncode == 1
    assert "No checkpoints are kept yet" in done.stderr
    assert not (home / "checkpoints").exists()


@pytest.mark.thorough
async def test_hostile_names_and_contents_reach_no_terminal(tmp_path: Path) -> None:
    name = "a\x1b]0;owned\x07\nb"
    replies = by_step([call("write_file", path=name, content="\x1b[2Jx\n"), say("done")])
    async with bench(tmp_path, replies) as b:
        await b.turn("go")
    for arguments in ((), ("--diff", "0")):
        done = rollback(b, *arguments)
        assert done.returncode == 0
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.stdout)


def export(b: Bench, *arguments: str) -> CompletedProcess[bytes]:
    session = json.loads(rollback(b, "--json").stdout)["session"]
    return subprocess.run(
        [*command.HERMES, "sessions", "export", session, *arguments],
        env=command.environment(b.home),
        cwd=b.workspace,
        capture_output=True,
        check=False,
        timeout=100,
    )


@pytest.mark.thorough
def test_a_branch_becomes_a_patch_that_git_takes(over: Bench, tmp_path: Path) -> None:
    done = export(over, "--format", "patch", "-o", str(tmp_path / "branch.patch"))
    assert done.returncode == 0, done.stderr
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    (fresh / "todo.txt").write_text("ask Ada\n")
    command_line = ["git", "apply", str(tmp_path / "branch.patch")]
    environ = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(tmp_path)}
    applied = subprocess.run(command_line, cwd=fresh, capture_output=True, env=environ, check=False)
    assert applied.returncode == 0, applied.stderr
    assert tree(fresh) == AFTER_2
    assert export(over, "--format", "patch").stdout == (tmp_path / "branch.patch").read_bytes()


@pytest.mark.thorough
def test_a_branch_becomes_a_page(over: Bench) -> None:
    page = export(over, "--format", "html").stdout.decode()
    assert page.startswith("<!doctype html>")
    assert "write the report" in page
    assert '<details class="call done">' in page
    missing = export(over, "--format", "html", "--branch", "nowhere")
    assert missing.returncode == 1
    assert b"no branch nowhere" in missing.stderr


@pytest.mark.thorough
async def test_without_steps_there_is_no_patch(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with await Store.open(home / "state.db") as store:
        session = await store.create_session(workspace=str(tmp_path), model="m")
        await store.append(session.id, "user", "hello")
    done = command.run(
        "sessions", "export", session.id, "--format", "patch", env=command.environment(home), cwd=tmp_path
    )
    assert done.returncode == 1
    assert "was not kept" in done.stderr


LONG = "".join(f"line {number}\n" for number in range(30))


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, str]:
    """A session that changed one file in three places, and what it made of it."""
    now = LONG.replace("line 2\n", "two\n").replace("line 15\n", "").replace("line 28\n", "line 28\nmore\n")
    replies = (call("write_file", path="long.txt", content=now), call("terminal", command="echo x >other"))

    async def had() -> Bench:
        async with bench(tmp_path_factory.mktemp("edited"), by_step([*replies, say("done")])) as b:
            (b.workspace / "long.txt").write_text(LONG)
            assert (await b.turn("edit it")).outcome == "done"
            return b

    return asyncio.run(had()), now


@pytest.mark.thorough
def test_single_hunks_go_back_by_the_numbers_of_the_diff(edited: tuple[Bench, str]) -> None:
    b, now = edited
    file = b.workspace / "long.txt"
    file.write_text(now)
    diff = rollback(b, "--diff", "0", "--file", "long.txt").stdout
    assert [line.split(" @@ ")[1] for line in diff.splitlines() if line.startswith("@@")] == [
        "hunk 1",
        "hunk 2",
        "hunk 3",
    ]
    code, output = answered(b, "y", "--to", "0", "--file", "long.txt", "--hunks", "1,3")
    assert code == 0, output
    assert "long.txt  changes back in 2 hunks  +1 −2" in output
    assert "-two" in output and "+line 2" in output and "line 15" not in output
    assert file.read_text() == LONG.replace("line 15\n", "")
    assert (b.workspace / "other").read_text() == "x\n"
    step = rollback(b).stdout.splitlines()[-1].split()[0]
    assert rollback(b, "--to", str(int(step) - 1), "--file", "long.txt", "--yes").returncode == 0
    assert file.read_text() == now


@pytest.mark.thorough
def test_hunks_of_a_file_that_somebody_else_changed_need_a_word(edited: tuple[Bench, str]) -> None:
    b, now = edited
    file = b.workspace / "long.txt"
    theirs = now.replace("line 22\n", "theirs\n")
    file.write_text(theirs)
    arguments = ("--to", "0", "--file", "long.txt", "--hunks", "1", "--yes")
    done = rollback(b, *arguments)
    assert (done.returncode, file.read_text()) == (1, theirs)
    done = rollback(b, *arguments, "--conflicts", "checkpoint")
    assert done.returncode == 0, done.stderr
    assert file.read_text() == theirs.replace("two\n", "line 2\n")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            ("--to", "0", "--file", "long.txt", "--hunks", "9"),
            1,
            "long.txt: there is no hunk 9; the last one is 3",
        ),
        (("--to", "0", "--file", "other", "--hunks", "1"), 1, "as a whole: it was not there then."),
        (("--to", "0", "--file", ".", "--hunks", "1"), 2, "is a folder"),
        (("--to", "0", "--file", "long.txt", "--hunks", "x"), 2, "--hunks takes numbers such as 1,3"),
        (("--to", "0", "--hunks", "1"), 2, "--hunks goes with --to and one --file"),
        (("--diff", "0", "--file", "long.txt", "--hunks", "1"), 2, "--hunks goes with --to and one --file"),
        (
            ("--to", "0", "--file", "a", "--hunks", "1", "--conflicts", "merge"),
            2,
            "do not go with --conflicts merge",
        ),
    ],
)
def test_mistakes_with_hunks_are_one_sentence(
    edited: tuple[Bench, str], arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    b, now = edited
    (b.workspace / "long.txt").write_text(now)
    done = rollback(b, *arguments, "--yes")
    assert (done.returncode, sentence in done.stderr) == (code, True), done.stderr
    assert (b.workspace / "long.txt").read_text() == now


@pytest.mark.thorough
async def test_the_first_note_of_a_home_is_taken_back_whole(tmp_path: Path) -> None:
    noting = call("memory", action="add", content="The tests run with make test.", target="memory")
    async with bench(tmp_path, by_step([noting, say("noted")])) as b:
        assert (await b.turn("note it")).outcome == "done"
    back = rollback(b, "--to", "0", "--yes", "--json")
    told = json.loads(back.stdout)
    assert (back.returncode, told["left"], told["coverage"]) == (0, [], "full"), back.stdout
    assert not (b.home / "memories" / "MEMORY.md").exists()
    assert rollback(b, "--to", "1", "--yes").returncode == 0
    assert (b.home / "memories" / "MEMORY.md").exists()
