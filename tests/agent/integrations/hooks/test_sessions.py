"""Hooks of the settings in a session with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.loader import load
from agent.core.config.schema import hooks_of
from agent.core.home import Home
from agent.events import ApprovalAsked, Decision, Event, Noticed, ToolFinished
from agent.integrations.hooks.session_hooks import HookConsent
from tests.support.compacting import condenses
from tests.support.delivery import Recorded
from tests.support.engines import Bench, bench
from tests.support.replies import Reply, by_step, call, say
from tests.support.team import by_task

WRITE = call("write_file", path="a.txt", content="one\n")


def declare(made: Bench, text: str, *, agree: bool = True) -> None:
    made.config(text)
    if agree:
        home = Home(made.home)
        HookConsent(home.hooks).agree(hooks_of(load(home, {}, made.workspace).settings))


async def results(made: Bench, **options: Any) -> list[dict[str, Any]]:
    ended = await made.turn("do it", **options)
    assert ended.outcome in ("done", "denied"), ended.error
    return [json.loads(each.result) for each in made.seen(ToolFinished)]


def block(decision: str, match: str = "*", **more: Any) -> str:
    answer = json.dumps({"decision": decision, "reason": "not on a Friday", **more})
    return f"hooks:\n  before_tool:\n    - command: |\n        echo '{answer}'\n      match: '{match}'\n"


async def test_a_hook_blocks_a_call_and_the_model_hears_why(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([WRITE, say("Then not.")])) as made:
        declare(made, block("block", "write_file|patch"))
        assert await results(made) == [{"error": "not on a Friday", "status": "blocked"}]
        assert not (made.workspace / "a.txt").exists()


async def test_a_hook_that_is_meant_for_other_tools_has_no_say(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([WRITE, say("Done.")])) as made:
        declare(made, block("block", "terminal"))
        await results(made)
        assert (made.workspace / "a.txt").read_text() == "one\n"


async def test_arguments_that_a_hook_rewrote_pass_the_gate_anew(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([WRITE, say("Done.")])) as made:
        declare(made, block("allow", arguments={"path": ".vscode/settings.json", "content": "x"}))
        (result,) = await results(made, approve=None)
        assert result["status"] == "blocked"
        assert not (made.workspace / ".vscode").exists()


async def test_ask_is_a_no_where_nobody_can_be_asked(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([WRITE, say("Then not.")])) as made:
        declare(made, block("ask"))
        (result,) = await results(made, approve=None)
        assert result["status"] == "blocked" and result["error"].endswith("The hook says: not on a Friday")
        assert not (made.workspace / "a.txt").exists()


async def test_a_result_is_rewritten_before_the_model_sees_it(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("terminal", command="echo hi"), say("Done.")])) as made:
        declare(made, """hooks: {transform_result: [{command: 'echo ''{"result": {"output": "HI"}}'''}]}""")
        assert [each["output"] for each in await results(made)] == ["HI"]
        assert '"HI\\' in json.dumps(made.server.requests[-1].body["messages"][-1])


@pytest.mark.thorough
async def test_the_calls_of_a_script_pass_the_same_hooks(tmp_path: Path) -> None:
    script = "from hermes_tools import write_file\nprint(write_file(path='a.txt', content='x'))\n"
    async with bench(tmp_path, by_step([call("execute_code", code=script), say("Done.")])) as made:
        declare(made, block("block", "write_file"))
        await results(made)
        assert not (made.workspace / "a.txt").exists()


async def test_an_answer_that_is_held_back_is_written_again(tmp_path: Path) -> None:
    held = '{"decision": "block", "reason": "no excuses"}'
    check = f"""read -r line; case "$line" in *sorry*) echo '{held}';; esac"""
    async with bench(tmp_path, by_step([say("I am sorry."), say("Fixed.")])) as made:
        declare(made, f"hooks:\n  before_response:\n    - command: |\n        {check}\n")
        ended = await made.turn("do it")
        assert ended.text == "Fixed."
        assert "no excuses" in json.dumps(made.server.requests[-1].body["messages"])


async def test_hooks_nobody_agreed_to_do_not_run_and_are_named(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([WRITE, say("Done.")])) as made:
        declare(made, block("block"), agree=False)
        await results(made)
        assert (made.workspace / "a.txt").exists()
        assert any("hermes hooks list" in each.text for each in made.seen(Noticed))


@pytest.mark.sample(1)
@pytest.mark.parametrize("change", ["true; ", "command "])
async def test_consent_ends_with_the_first_changed_byte(tmp_path: Path, change: str) -> None:
    async with bench(tmp_path, by_step([WRITE, say("Done.")])) as made:
        declare(made, block("block"))
        text = (made.home / "config.yaml").read_text()
        made.config(text.replace("echo '", f"{change}echo '", 1))
        await results(made)
        assert (made.workspace / "a.txt").exists()


async def test_session_events_reach_their_hooks(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([WRITE, say("Done.")])) as made:
        kinds = (
            "session_reset",
            "session_start",
            "before_request",
            "after_request",
            "after_tool",
            "session_end",
        )
        lines = "".join(f"  {kind}:\n    - command: cat >> {tmp_path}/heard\n" for kind in kinds)
        declare(made, f"hooks:\n{lines}")
        await made.turn("Begin.", approve="yolo", after="20260101-000000-aaaa")
        told = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
        assert told[0]["before"] == "20260101-000000-aaaa"
        assert [each["event"] for each in told] == [
            "session_reset",
            "session_start",
            "before_request",
            "after_request",
            "after_tool",
            "before_request",
            "after_request",
            "session_end",
        ]


@pytest.mark.thorough
async def test_what_happens_beside_the_turn_reaches_its_hooks(tmp_path: Path) -> None:
    sent = call("delegate_task", goal="look around")
    steps = [sent, call("terminal", command="echo one > a.txt"), say("Done.")]
    works = by_task({"main": steps, "look around": [say("Looked.")]})

    def script(request: Recorded) -> Reply:
        summary = "## Goal\nThe person said go, and nothing else that is worth a word.\n## Next\nGo on."
        return say(summary) if condenses(request) else works(request)

    async with bench(tmp_path, script) as made:
        kinds = ("subagent_start", "subagent_stop", "approval_asked", "approval_answered", "file_changed")
        lines = "".join(
            f"  {kind}:\n    - command: cat >> {tmp_path}/heard\n" for kind in (*kinds, "compaction")
        )
        declare(made, f"hooks:\n{lines}")

        def allow(event: Event) -> None:
            if isinstance(event, ApprovalAsked):
                event.reply.set_result(Decision("once"))

        async with made.engine(approve="careful", attended=True) as engine:
            engine.stream.subscribe(allow)
            assert (await engine.run("Go. " + "word " * 4_000)).outcome == "done"
            await engine.compact()
        told = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
        of = {each["event"]: each for each in told}
        assert set(of) == {*kinds, "compaction"}, of
        assert of["subagent_start"]["goal"] == "look around" and of["subagent_stop"]["outcome"] == "done"
        assert of["approval_asked"]["tool"] == "terminal" and of["approval_answered"]["outcome"] == "once"
        assert of["file_changed"]["paths"] and of["compaction"]["result"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"hooks": 3}', b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_consent_file_agrees_to_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "hooks.json"
    path.write_bytes(content)
    path.chmod(0o600)
    assert HookConsent(path).agreed_digests() == frozenset()


def test_a_consent_file_that_others_may_write_agrees_to_nothing(tmp_path: Path) -> None:
    path = tmp_path / "hooks.json"
    HookConsent(path).agree([])
    path.write_text('{"hooks": ["x"]}')
    assert HookConsent(path).agreed_digests() == {"x"}
    path.chmod(0o666)
    assert HookConsent(path).agreed_digests() == frozenset()


@pytest.mark.thorough
async def test_hooks_of_a_project_run_after_two_yeses_and_replace_none_of_the_person(tmp_path: Path) -> None:
    from agent.core.config import trust

    async with bench(tmp_path, by_step([WRITE, say("Done.")])) as made:
        own = "hooks:\n  before_tool:\n    - command: cat >> own.txt\n"
        declare(made, own)
        (made.workspace / ".hermes").mkdir()
        (made.workspace / ".hermes" / "config.yaml").write_text(block("block", "write_file|patch"))
        home, said = Home(made.home), str(tmp_path / "work")
        await results(made)
        (made.workspace / "a.txt").unlink()
        project = trust.read_project(home, made.workspace)
        assert project is not None and not load(home, {}, made.workspace).project_hooks
        trust.trust(home, project)
        loaded = load(home, {}, made.workspace)
        assert [each.project for each in loaded.hooks] == ["", said]
        assert not loaded.problems
        made.events.clear()
        assert "error" not in (await results(made))[0]
        assert any("was not agreed to" in each.text for each in made.seen(Noticed))
        HookConsent(home.hooks).agree(loaded.hooks)
        # What is agreed to elsewhere does not take it away.
        HookConsent(home.hooks).agree(hooks_of(loaded.settings))
        made.events.clear()
        assert (await results(made))[0]["error"] == "not on a Friday"
        assert (made.workspace / "own.txt").read_text().count("before_tool") == 3
