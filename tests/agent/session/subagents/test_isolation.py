"""Agents in isolated copies: apart from the workspace, merged by whoever sent them, never lost."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.errors import HermesError
from agent.events import ApprovalAsked, Decision, Noticed, StepTaken
from agent.workspace.isolated_copies.copy_folders import holders, sweep
from tests.agent.session.subagents.test_delegation import asked, results, team, until
from tests.agent.session.subagents.test_recovery import killed_while
from tests.support.engines import Bench
from tests.support.model_server import call, say
from tests.support.replies import Reply
from tests.support.team import report

WRITES = [call("write_file", path="a.txt", content="a\nb\n"), say(report("Wrote a."))]


def sent(goal: str = "child", **more: Any) -> Reply:
    return call("delegate_task", goal=goal, isolation="copy", **more)


def settle(action: str, agent: str = "agent-1", **more: Any) -> Reply:
    return call("subagents", action=action, id=agent, **more)


def copies(made: Bench) -> list[Path]:
    """Copies that are on the disk."""
    folder = made.home / "copies"
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


@pytest.mark.thorough
async def test_three_agents_in_copies_change_different_files_are_merged_and_undone_at_once(
    tmp_path: Path,
) -> None:
    names = ("one", "two", "three")
    before: list[bool] = []

    def works(name: str) -> Any:
        def answer(request: Any) -> Reply:
            done = sum(message["role"] == "tool" for message in request.messages)
            if done == 0:
                return call("write_file", path=f"{name}.txt", content=f"{name}\n")
            if done == 1:
                return call("terminal", command=f"pwd; echo more >> {name}.txt; ls *.txt")
            before.append((made.workspace / f"{name}.txt").exists())
            return say(report(f"Wrote {name}."))

        return answer

    scripts: dict[str, Any] = {name: works(name) for name in names}
    scripts["main"] = [
        call("delegate_task", tasks=[{"goal": name} for name in names], isolation="copy"),
        settle("merge", "agent-1"),
        settle("merge", "agent-2"),
        settle("merge", "agent-3"),
        say("All merged."),
    ]
    async with team(tmp_path, scripts) as made:
        (made.workspace / "old.txt").write_text("old\n")
        async with made.engine() as engine:
            ended = await engine.run("Go.")
            assert (ended.outcome, ended.text) == ("done", "All merged.")
            assert made.server.refusals == []
            assert before == [False] * 3
            first, *merges = results(made)
            assert first["outcome"] == "completed"
            for name, each in zip(names, first["results"], strict=True):
                assert each["changed_in_copy"] == [f"{name}.txt +2 -0"]
                assert each["files"] == [f"{name}.txt"]
                assert "Nothing of that is merged" in each["note"]
            assert [each["merged"] for each in merges] == [[f"{name}.txt"] for name in names]
            assert all(each["note"].endswith("All of it is merged.") for each in merges)
            for name in names:
                assert (made.workspace / f"{name}.txt").read_text() == f"{name}\nmore\n"
            assert [event.paths for event in made.seen(StepTaken)] == [(f"{name}.txt",) for name in names]
            assert {event.agent for event in made.seen(StepTaken)} == {"main"}
            assert copies(made) == []
            operation, _ = await engine.history.undo()
            assert operation.kind == "turn"
            assert sorted(path.name for path in made.workspace.iterdir()) == ["old.txt"]
            await engine.history.redo()
            assert (made.workspace / "two.txt").read_text() == "two\nmore\n"


@pytest.mark.thorough
async def test_a_file_of_the_project_itself_is_refused_with_its_path_in_the_copy(tmp_path: Path) -> None:
    def child(request: Any) -> Reply:
        done = sum(message["role"] == "tool" for message in request.messages)
        if done == 0:
            return call("write_file", path=str(made.workspace / "sub" / "x.txt"), content="x")
        if done == 1:
            return call("write_file", path="sub/x.txt", content="x")
        return say(report())

    async with team(tmp_path, {"main": [sent(), say("Over.")], "child": child}) as made:
        async with made.engine() as engine:
            await engine.run("Go.")
            refused, written = results(made, "agent-1")
            (copy,) = copies(made)
            assert f"use {copy / 'work' / 'sub' / 'x.txt'}" in refused["error"]
            assert "error" not in written
            assert not (made.workspace / "sub").exists()
            assert (copy / "work" / "sub" / "x.txt").read_text() == "x"
            assert (await engine.history.steps()) == ()


@pytest.mark.thorough
async def test_some_paths_are_merged_and_the_rest_is_discarded(tmp_path: Path) -> None:
    child = [
        call("write_file", path="src/a.py", content="a = 1\n"),
        call("write_file", path="src/b.py", content="b = 1\n"),
        call("terminal", command="rm old.txt"),
        say(report("Done.")),
    ]
    main = [
        sent(),
        settle("diff"),
        settle("merge", paths=["src/a.py"]),
        settle("merge", paths=["nowhere"]),
        call("subagents", action="list"),
        settle("discard"),
        settle("diff"),
        say("Over."),
    ]
    async with team(tmp_path, {"main": main, "child": child}) as made:
        (made.workspace / "old.txt").write_text("old\n")
        await made.turn("Go.")
        _, diff, merged, nowhere, listed, discarded, gone = results(made)
        assert diff["paths"] == ["old.txt +0 -1", "src +0 -0", "src/a.py +1 -0", "src/b.py +1 -0"]
        assert "+a = 1" in diff["diff"] and "-old" in diff["diff"]
        assert (diff["added"], diff["removed"]) == (2, 1)
        assert merged["merged"] == ["src", "src/a.py"]
        assert merged["unmerged"] == 2
        assert nowhere["error"].startswith("Nothing is changed at nowhere in the copy")
        assert listed["agents"][0]["copy"] == "not merged"
        assert discarded["discarded"] == 2
        assert "no copy that could be merged" in gone["error"]
        assert sorted(path.name for path in (made.workspace / "src").iterdir()) == ["a.py"]
        assert (made.workspace / "old.txt").exists()
        assert copies(made) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("conflicts", "kept"),
    [("keep", "mine\nb\nc\n"), ("take", "a\nb\ntheirs\n"), ("merge", "mine\nb\ntheirs\n")],
)
async def test_what_was_changed_on_both_sides_stays_unless_told_otherwise(
    tmp_path: Path, conflicts: str, kept: str
) -> None:
    def main(request: Any) -> Reply:
        done = sum(message["role"] == "tool" for message in request.messages)
        if done == 1:
            (made.workspace / "a.txt").write_text("mine\nb\nc\n")
        steps = [sent(), settle("diff"), settle("merge", conflicts=conflicts), say("Over.")]
        return steps[done]

    child = [call("write_file", path="a.txt", content="a\nb\ntheirs\n"), say(report())]
    async with team(tmp_path, {"main": main, "child": child}) as made:
        (made.workspace / "a.txt").write_text("a\nb\nc\n")
        await made.turn("Go.")
        _, diff, merged = results(made)
        assert [each["path"] for each in diff["conflicts"]] == ["a.txt"]
        assert (made.workspace / "a.txt").read_text() == kept
        assert bool(merged.get("left_as_they_are")) is (conflicts == "keep")
        assert merged["unmerged"] == (conflicts == "keep")


@pytest.mark.thorough
async def test_agents_of_an_agent_in_a_copy_work_in_the_same_copy(tmp_path: Path) -> None:
    scripts = {
        "main": [sent("middle"), say("Over.")],
        "middle": [
            sent("refused"),
            call("delegate_task", goal="leaf"),
            call("read_file", path="leaf.txt"),
            say(report()),
        ],
        "leaf": [call("write_file", path="leaf.txt", content="leaf\n"), say(report())],
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        refused, _, read = results(made, "agent-1")
        assert "isolation `shared`: they work in the same copy" in refused["error"]
        assert "leaf" in read["content"]
        (result,) = results(made)[0]["results"]
        assert result["changed_in_copy"] == ["leaf.txt +1 -0"]
        assert list(made.workspace.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.parametrize(("choice", "there"), [("once", True), ("deny", False)])
async def test_a_merge_asks_as_the_mode_says_and_names_what_it_touches(
    tmp_path: Path, choice: Any, there: bool
) -> None:
    scripts = {"main": [sent(), settle("merge"), say("Over.")], "child": WRITES}
    async with team(tmp_path, scripts) as made:
        async with made.engine(approve="careful", attended=True) as engine:

            def answer(event: Any) -> None:
                if isinstance(event, ApprovalAsked):
                    asked_for.append((event.agent, event.headline))
                    chosen = choice if event.headline.startswith("merge") else "once"
                    event.reply.set_result(Decision(chosen))

            asked_for: list[tuple[str, str]] = []
            engine.stream.subscribe(answer)
            await engine.run("Go.")
        agent, headline = asked_for[-1]
        assert agent == "main"
        assert headline == f"merge 1 file from the copy of agent-1: {made.workspace / 'a.txt'}"
        assert any(agent == "agent-1" for agent, _ in asked_for)
        assert (made.workspace / "a.txt").exists() is there
        assert len(copies(made)) == (0 if there else 1)


@pytest.mark.thorough
async def test_in_a_copy_no_more_is_asked_than_in_the_workspace(tmp_path: Path) -> None:
    child = [
        call("write_file", path="a.txt", content="a\n"),
        call("terminal", command="cat a.txt"),
        call("write_file", path=".hermes/permissions.yaml", content="rules: []\n"),
        say(report()),
    ]
    async with team(tmp_path, {"main": [sent(), say("Over.")], "child": child}) as made:
        await made.turn("Go.", approve="normal")
        written, shown, guarded = results(made, "agent-1")
        assert "error" not in written
        assert shown["output"].strip() == "a"
        assert guarded["status"] == "blocked"


@pytest.mark.thorough
async def test_the_mode_of_the_session_counts_in_a_copy_at_once(tmp_path: Path) -> None:
    switching: list[asyncio.Task[Any]] = []

    def child(request: Any) -> Reply:
        done = sum(message["role"] == "tool" for message in request.messages)
        if done == 1:
            switching.append(asyncio.create_task(engine.set_mode("plan")))
        return call("write_file", path=f"{done}.txt", content="x\n") if done < 2 else say(report())

    async with team(tmp_path, {"main": [sent(), say("Over.")], "child": child}) as made:
        async with made.engine(approve="normal") as engine:
            await engine.run("Go.")
        written, refused = results(made, "agent-1")
        assert "error" not in written
        assert refused["status"] == "blocked"


async def test_a_copy_in_which_nothing_changed_goes_with_its_agent(tmp_path: Path) -> None:
    scripts = {"main": [sent(), settle("merge"), say("Over.")], "child": [say(report("Only looked."))]}
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        done, merged = results(made)
        assert "note" not in done["results"][0]
        assert "no copy that could be merged" in merged["error"]
        assert copies(made) == []


@pytest.mark.thorough
async def test_an_agent_that_goes_on_after_the_merge_gets_a_fresh_copy_and_is_told(tmp_path: Path) -> None:
    def child(request: Any) -> Reply:
        told.append([str(message["content"]) for message in request.messages[-2:]])
        done = sum(message["role"] == "tool" for message in request.messages)
        if done in (0, 1) and request.messages[-1]["role"] == "user":
            return call("write_file", path=f"{done}.txt", content="x\n")
        return say(report())

    told: list[list[str]] = []
    scripts = {
        "main": [
            sent(),
            settle("merge"),
            settle("send_input", text="Now the other one."),
            settle("wait"),
            settle("merge"),
            say("Over."),
        ],
        "child": child,
    }
    async with team(tmp_path, scripts) as made:
        await made.turn("Go.")
        assert "You work alone in a copy of the project" in told[0][-1]
        (again,) = [news for news, words in told if words == "Now the other one."]
        assert "What you changed before was merged into the project." in again
        assert sorted(path.name for path in made.workspace.iterdir()) == ["0.txt", "1.txt"]


@pytest.mark.thorough
async def test_what_is_not_merged_is_there_again_when_the_session_is(tmp_path: Path) -> None:
    main = [sent(), say("Later."), settle("diff"), settle("merge"), say("Merged.")]
    async with team(tmp_path, {"main": main, "child": WRITES}) as made:
        (made.workspace / "b.txt").write_text("one\ntwo\n")
        async with made.engine() as engine:
            await engine.run("Go.")
            session = engine.session.id
        assert len(copies(made)) == 1
        assert sweep(made.home / "copies") == 0
        (made.workspace / "b.txt").write_text("changed while nobody looked\n")
        async with made.engine(resume=session) as engine:
            ended = await engine.run("Merge it.")
            assert ended.text == "Merged."
            request = str(made.server.requests[-1].messages)
            assert "The copies of agent-1 hold changes that are not merged" in request
        assert (made.workspace / "a.txt").read_text() == "a\nb\n"
        assert (made.workspace / "b.txt").read_text() == "changed while nobody looked\n"
        assert copies(made) == []


@pytest.mark.thorough
async def test_what_others_changed_while_hermes_was_away_is_a_conflict(tmp_path: Path) -> None:
    child = [call("write_file", path="a.txt", content="theirs\n"), say(report())]
    main = [sent(), say("Later."), settle("merge"), say("Over.")]
    async with team(tmp_path, {"main": main, "child": child}) as made:
        (made.workspace / "a.txt").write_text("first\n")
        async with made.engine() as engine:
            await engine.run("Go.")
            session = engine.session.id
        (made.workspace / "a.txt").write_text("the person's\n")
        async with made.engine(resume=session) as engine:
            await engine.run("Merge it.")
        merged = results(made)[-1]
        assert [each["path"] for each in merged["left_as_they_are"]] == ["a.txt"]
        assert (made.workspace / "a.txt").read_text() == "the person's\n"
        assert len(copies(made)) == 1


def going_on(told: list[str]) -> Any:
    def child(request: Any) -> Reply:
        done = sum(message["role"] == "tool" for message in request.messages)
        last = str(request.messages[-1]["content"])
        if done == 0:
            return call("write_file", path="first.txt", content="1\n")
        if "Continue where you stopped" in last:
            told.append(last)
            return call("write_file", path="second.txt", content="2\n")
        return say(report("Went on.")) if told else say("word " * 4_000, pace=0.02)

    return child


@pytest.mark.thorough
@pytest.mark.parametrize("lost", [False, True])
async def test_after_a_kill_an_agent_goes_on_in_its_copy_or_says_that_it_is_gone(
    tmp_path: Path, lost: bool
) -> None:
    told: list[str] = []
    main: Sequence[Any] = [sent(), settle("resume"), settle("wait"), settle("merge"), say("Over.")]
    async with team(tmp_path, {"main": main, "child": going_on(told)}) as made:
        session = await killed_while(made, lambda: asked(made, "child") >= 2)
        (copy,) = copies(made)
        assert (copy / "work" / "first.txt").read_text() == "1\n"
        if lost:
            shutil.rmtree(copy)
        async with made.engine(resume=session) as engine:
            assert [run.standing for run in engine.scheduler.runs()] == ["interrupted"]
            await engine.run("Go on.")
        files = sorted(path.name for path in made.workspace.iterdir())
        assert files == (["second.txt"] if lost else ["first.txt", "second.txt"])
        assert ("is gone, with what you had changed there" in told[0]) is lost
        warned = [event.text for event in made.seen(Noticed) if "begins in a fresh one" in event.text]
        assert len(warned) == lost
        assert copies(made) == []


@pytest.mark.thorough
async def test_copies_of_a_session_that_is_deleted_are_cleared_away(tmp_path: Path) -> None:
    scripts = {"main": [sent(), say("Later.")], "child": WRITES}
    async with team(tmp_path, scripts) as made:
        async with made.engine() as engine:
            await engine.run("Go.")
            gone = engine.session.id
        assert [holder.session for holder in holders(made.home / "copies").values()] == [gone]
        async with made.engine() as engine:
            await engine.session.store.delete(gone)
        assert len(copies(made)) == 1
        async with made.engine():
            pass
        assert copies(made) == []


async def test_where_files_are_not_kept_or_no_copy_can_be_made_a_sentence_says_so(tmp_path: Path) -> None:
    scripts = {"main": [sent(), say("Over.")], "child": WRITES}
    async with team(tmp_path, scripts, "checkpoints: {enabled: false}\n") as made:
        await made.turn("Go.")
        assert "no agent can work in a copy; use isolation `shared`" in results(made)[0]["error"]
        made.config("")
        made.server.requests.clear()
        made.events.clear()
        (made.home / "copies").write_text("in the way")
        await made.turn("Go.")
        (result,) = results(made)[0]["results"]
        assert result["outcome"] == "failed"
        assert str(made.home / "copies") in result["reason"]
        assert list(made.workspace.iterdir()) == []


@pytest.mark.thorough
async def test_a_person_merges_discards_and_undoes(tmp_path: Path) -> None:
    scripts = {"main": [sent(), sent("other"), say("Over.")], "child": WRITES, "other": WRITES}
    async with team(tmp_path, scripts) as made, made.engine() as engine:
        await engine.run("Go.")
        agents, one = engine.scheduler, engine.scheduler.run("agent-1")
        difference = await agents.copies.changes("agent-1")
        assert [file.label() for file in difference.files] == ["a.txt +2 -0"]
        plan = await agents.copies.plan_merge("agent-1")
        restored = await engine.history.bring_in(
            lambda: agents.copies.merge(one, plan), "merge of agent-1", "[The user merged.]"
        )
        assert restored.step is not None
        assert (made.workspace / "a.txt").exists()
        assert await agents.copies.discard(agents.run("agent-2")) == 1
        operation, _ = await engine.history.undo()
        assert operation.label == "merge of agent-1"
        assert not (made.workspace / "a.txt").exists()
        with pytest.raises(HermesError, match="no copy that could be merged"):
            await agents.copies.changes("agent-1")
        assert copies(made) == []


@pytest.mark.thorough
async def test_a_copy_is_not_merged_or_discarded_while_its_agent_works(tmp_path: Path) -> None:
    slow = [call("write_file", path="a.txt", content="a\n"), say("word " * 2_000, pace=0.02)]
    main = [
        sent(background=True),
        settle("merge"),
        settle("discard"),
        settle("kill"),
        settle("merge"),
        say("Over."),
    ]

    def answer(request: Any) -> Reply:
        return main[sum(message["role"] == "tool" for message in request.messages)]

    async with team(tmp_path, {"main": answer, "child": slow}) as made, made.engine() as engine:
        turn = asyncio.create_task(engine.run("Go."))
        await turn
        await until(made, lambda: engine.scheduler.run("agent-1").is_over)
        _, merge, discard, killed, merged = results(made)
        assert "still works in its copy" in merge["error"]
        assert "still works in its copy" in discard["error"]
        assert killed["outcome"] == "killed"
        assert merged.get("merged") in (["a.txt"], None)
