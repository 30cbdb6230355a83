"""`hermes eval` as a command: what is wrong is said in one sentence, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.automation.evaluation.figures import bundled_pairs
from app.main import main
from tests.support.command import environment, run
from tests.support.model_process import ServerProcess
from tests.support.model_server import ModelServer, say


def lay(folder: Path, text: str = "prompt: Say yes.\nchecks: [{contains: 'yes'}]\n") -> Path:
    """A suite of one task."""
    root = folder / "suite"
    (root / "tasks" / "say" / "workspace").mkdir(parents=True)
    (root / "suite.yaml").write_text("name: mine\n")
    (root / "tasks" / "say" / "task.yaml").write_text(text)
    return root


def task(text: str) -> Callable[[Path], object]:
    return lambda root: (root / "tasks/say/task.yaml").write_text(text)


def head(text: str) -> Callable[[Path], object]:
    return lambda root: (root / "suite.yaml").write_text(text)


def checks(text: str) -> Callable[[Path], object]:
    return task(f"prompt: a\nchecks: [{{{text}}}]\n")


def moved(root: Path) -> None:
    (root / "tasks").rename(root / "task")


def linked(path: str, target: str) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).symlink_to(target)

    return change


def replaced(root: Path) -> None:
    (root / "tasks/say/workspace").rename(root / "away")
    (root / "tasks/say/workspace").symlink_to("../../away")


ALIASES = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 30))])

SUITES: list[tuple[Callable[[Path], object], str]] = [
    (head("name: [a]"), "`name` and `description` have to be text"),
    (head("runs: many"), "`runs` has to be a number from 1 to 1000"),
    (head("name: a\nname: b"), "line 2: `name` appears twice"),
    (head("a: !!python/object:os.system {}"), "is not YAML: could not determine a constructor"),
    (head("name: \x00"), "is not YAML"),
    (head("name: &a [*a]"), "is nested deeper than 64 levels"),
    (head("- mine"), "has to be a mapping"),
    (head("defaults: [1]"), "`defaults` is a mapping"),
    (head("pairs: ../pairs.jsonl"), "`pairs` leads out of the suite"),
    (head("pairs: lost.jsonl"), "lost.jsonl cannot be read: No such file"),
    (head("pairs: {}"), "`pairs` is the path of a file"),
    (lambda root: (root / "suite.yaml").unlink(), "suite.yaml cannot be read: No such file"),
    (lambda root: (root / "suite.yaml").write_bytes(b"\xff"), "is not encoded in UTF-8"),
    (lambda root: os.truncate(root / "suite.yaml", 20_000_001), "is larger than 20 MB"),
    (moved, "has no tasks: each is a file tasks/NAME/task.yaml"),
    (lambda root: (root / "tasks/say/task.yaml").rename(root / "tasks/say/task.yml"), "task.yaml cannot be"),
    (lambda root: (root / "tasks/new\nline").mkdir(), "is not a name for a task"),
    (lambda root: (root / "tasks" / ("n" * 240)).mkdir(), "at most 200 bytes"),
    (linked("tasks/out", "/usr"), "is a link that leads out of the suite"),
    (linked("tasks/say/workspace/out", "/etc"), "is a link that leads out of `workspace`"),
    (linked("tasks/say/workspace/out", "../task.yaml"), "is a link that leads out of `workspace`"),
    (lambda root: os.mkfifo(root / "tasks/say/workspace/pipe"), "is not a file, folder or link"),
    (linked("tasks/other/workspace", "../say/workspace"), "task.yaml cannot be read"),
    (replaced, "workspace has to be a folder"),
    (task("prompt: a\nid: other"), "is called after its folder, say"),
    (task("prompt: a\nprompt: b"), "line 2: `prompt` appears twice"),
    (task(f"prompt: a\n{ALIASES}"), "holds more than 1,000,000 values once its aliases are expanded"),
    (task("prompt: a\nchecks: " + "[" * 90 + "]" * 90), "nested deeper than 64 levels"),
    (task("prompt: a\nimage: lost.png"), "lost.png"),
    (task("prompt: a\nwhen: 2024-99-99"), "is not YAML"),
    (task("prompt: a\nwhen: 1"), "`when` is not part of a task"),
    (checks("contain: a"), "a check has one kind of contains"),
    (checks("regex: '('"), "`regex` is not a regular expression"),
    (checks("contains: a, not: 'no'"), "`not` is true or false"),
    (checks("tools: {exact: [1]}"), "`tools` is a list of names"),
    (checks("file: {path: a, contain: b}"), "`file.contain` is unknown"),
    (checks("file: {path: a, exists: maybe}"), "`file.exists` is true or false"),
    (checks("command: {run: a, seconds: soon}"), "`command.seconds` is a number"),
    (checks("command: {run: a, exit: '0'}"), "`command.exit` is an exit code"),
    (checks("command: {run: a, contains: 1}"), "`command.contains` has to be text"),
]  # fmt: skip


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """What is said of something wrong: one line."""
    assert main(["eval", *words]) == code, words
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1 and "Traceback" not in printed.err, printed.err
    return printed.err


@pytest.mark.thorough
def test_a_suite_with_something_wrong_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for number, (change, said) in enumerate(SUITES):
        root = lay(tmp_path / str(number))
        change(root)
        told = refused(capsys, "run", str(root))
        assert said in told, (number, told)
    assert "is not a folder of a suite" in refused(capsys, "run", str(tmp_path / "0/suite/suite.yaml"))
    assert "there are edits, memory, tools" in refused(capsys, "run", "nothing")
    assert not (tmp_path / "suite-results").exists() and not (tmp_path / "home").exists()


def result(**changes: Any) -> dict[str, Any]:
    each = {
        "task": "a",
        "run": 1,
        "passed": True,
        "score": 1.0,
        "calls": 0,
        "tokens": 5,
        "cost": None,
        "seconds": 1.0,
        "outcome": "done",
        "checks": [],
        "session": "lost",
        "error": "",
        "pass": True,
    }
    whole = {"format": 1, "suite": "mine", "runs": 1, "seed": 0, "model": "m", "version": "1"}
    mine = {name: value for name, value in changes.items() if name in each}
    return {**whole, **{n: v for n, v in changes.items() if n not in each}, "results": [{**each, **mine}]}


WRONG_RESULTS: list[tuple[Any, str]] = [
    ("{", "is not a result of"),
    ("[]", "is not a result of"),
    ("[" * 100_000, "is not a result of"),
    (b"\xff", "is not a result of"),
    ({**result(), "results": []}, "holds no runs"),
    (result(score=float("nan")), "is not a result of"),
    (result(seconds=-1), "is not a result of"),
    (result(calls=True), "is not a result of"),
    (result(runs=3), "is not a result of"),
    (result(runs=0), "is not a result of"),
    ({**result(), "results": result()["results"] * 2}, "is not a result of"),
    (result(judge={"kappa": "high"}), "is not a result of"),
    (result(skills="yes"), "is not a result of"),
    (None, "cannot be read: No such file"),
]


def test_results_with_something_wrong_are_neither_compared_nor_exported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(result()))
    for content, said in WRONG_RESULTS:
        bad.unlink(missing_ok=True)
        if content is not None:
            bad.write_bytes(
                content if isinstance(content, bytes) else content.encode()
                if isinstance(content, str) else json.dumps(content).encode()
            )  # fmt: skip
        assert said in refused(capsys, "compare", str(good), str(bad))
        assert said in refused(capsys, "export", str(bad))
    for others, said in (
        ({"suite": "other"}, "A is of the suite mine, B of other"),
        ({"task": "b"}, "no task in common"),
    ):
        bad.write_text(json.dumps(result(**others)))
        assert said in refused(capsys, "compare", str(good), str(bad))
    assert "cannot be written: Is a directory" in refused(capsys, "export", str(good), "-o", str(tmp_path))
    unequal = result(memory=True)
    unequal["results"].append({**unequal["results"][0], "task": "b"})
    bad.write_text(json.dumps(unequal))
    assert main(["eval", "compare", str(good), str(bad)]) == 0
    told = capsys.readouterr().out
    assert "in one of them only, not compared: b\n" in told and "differ as well: memory\n" in told


def test_a_result_is_exported_where_its_sessions_are_gone_or_broken(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    (tmp_path / "result.json").write_text(json.dumps(result(session="gone")))
    (tmp_path / "home").mkdir()
    assert main(["eval", "export", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "inspect.json").read_text())["samples"][0]["messages"] == []
    (tmp_path / "home" / "state.db").write_bytes(b"no store" * 2000)
    capsys.readouterr()
    assert "is not a session store" in refused(capsys, "export", str(tmp_path), code=1)


@pytest.mark.thorough
async def test_runs_of_a_suite_with_and_without_notes_and_skills_are_told_apart(tmp_path: Path) -> None:
    home, root = tmp_path / "home", lay(tmp_path, "prompt: Say yes.\nchecks: [{judge: It says yes.}]\n")
    (home / "memories").mkdir(parents=True)
    (home / "memories" / "MEMORY.md").write_text("The harbour is closed on Mondays.\n")
    pairs = bundled_pairs().pairs[:20]
    rows = [{"prompt": each.prompt, "a": each.a, "b": each.b, "label": each.label} for each in pairs]
    (root / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "suite.yaml").write_text("name: mine\npairs: pairs.jsonl\n")

    def script(request: Any) -> Any:
        if "response_format" not in request.body:
            return say("yes")
        score = "Score the answer" in request.messages[-1]["content"]
        return say(json.dumps({"reason": "so", **({"score": 9} if score else {"winner": "first"})}))

    async with ModelServer(script) as server:
        env = environment(home, server.base_url)

        async def hermes(*words: str, code: int = 0) -> str:
            done = await asyncio.to_thread(run, "eval", *words, env=env, cwd=tmp_path)
            assert done.returncode == code, done.stderr
            return done.stderr if code else done.stdout

        first = await hermes("run", "suite", "-o", "with")
        assert "Scores of this judge do not count: its kappa of 0.00 is below 0.6.\n" in first
        assert "Judged tasks: 1 of 1; what rests on them is grey." in first
        assert "changed with the order 100.0%" in first and "20 labelled pairs (pairs.jsonl)" in first
        told = await hermes("run", "suite", "-o", "without", "--no-skills", "--no-memory", "--json")
        without = json.loads(told)
        assert [each["outcome"] for each in without["results"]] == ["done"], without
        asked = [str(each.body["messages"][0]) for each in server.requests if "tools" in each.body]
        assert [("harbour" in text, "# Skills" in text) for text in asked] == [(True, True), (False, False)]
        offered = {tool["function"]["name"] for tool in server.requests[0].body.get("tools", ())}
        assert not offered & {"memory", "skill_manage"} and len(server.requests) == 40 + 2 * 4
        assert (without["skills"], without["memory"], without["judge"]["pairs"]) == (False, False, 20)
        assert (home / "memories" / "MEMORY.md").read_text() == "The harbour is closed on Mondays.\n"
        compared = await hermes("compare", "with", "without")
        assert "differ as well: skills, memory" in compared and "do not count" in compared
        mixed = await hermes("run", "suite", "-o", "with", "--no-memory", code=2)
        assert "holds runs with memory on, not off" in mixed
        other = await hermes("run", "suite", "-o", "with", "--model", "other", code=2)
        assert "holds runs with model custom/scripted, not custom/other" in other
        assert mixed.count("\n") == other.count("\n") == 1
        assert len(json.loads((tmp_path / "with" / "result.json").read_text())["results"]) == 1


@pytest.mark.thorough
def test_a_suite_of_which_nothing_passes_ends_with_1_and_tells_it_as_done(tmp_path: Path) -> None:
    task = tmp_path / "suite" / "tasks" / "one"
    task.mkdir(parents=True)
    (tmp_path / "suite" / "suite.yaml").write_text("name: mine\ndescription: One task.\n")
    (task / "task.yaml").write_text("prompt: make it\nchecks: [{command: test -e made.txt}]\n")
    with ServerProcess("script = by_step([say('I did nothing.')])", tmp_path) as server:
        environ = environment(tmp_path / "home", server.base_url)
        done = run("eval", "run", str(tmp_path / "suite"), "-o", "out", env=environ, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    kept = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [(each["outcome"], each["passed"]) for each in kept["results"]] == [("done", False)]
    page = (tmp_path / "out" / "report.html").read_text()
    assert ">not passed<" in page
    assert ">failed<" not in page
