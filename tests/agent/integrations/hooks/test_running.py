"""One hook as a real child process: what it is given, and what comes of each way to fail."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.hook_list import Hook, HookAnswer, HookError, combine, parse_answer
from agent.events import Event, Noticed
from agent.integrations.hooks.session_hooks import SessionHooks, run_hook

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def hook(command: str, **how: Any) -> Hook:
    return Hook("before_tool", command, **{"timeout": 5.0, **how})


async def run(command: str, folder: Path, **how: Any) -> HookAnswer:
    return await run_hook(hook(command, **how), {"event": "before_tool"}, folder, ENVIRONMENT)


async def test_a_hook_gets_one_json_object_in_the_workspace_and_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    payload = {"event": "before_tool", "tool": "terminal", "arguments": {"command": "ls\x1b[2J é"}}
    await run_hook(hook("cat > given; pwd > where; env > had"), payload, tmp_path, ENVIRONMENT)
    assert json.loads((tmp_path / "given").read_text()) == payload
    assert (tmp_path / "where").read_text().strip() == str(tmp_path)
    assert "sk-secret" not in (tmp_path / "had").read_text()


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("true", HookAnswer()),
        ("exec < /dev/null", HookAnswer()),
        ("""echo '{"decision": "block", "reason": "no\\u001b[31m"}'""", HookAnswer("block", "no")),
        ("""echo '{"arguments": {"a": 1}}'""", HookAnswer(arguments={"a": 1})),
        ("""echo '{"result": [1]}'; sleep 60 > /dev/null 2>&1 &""", HookAnswer(result=[1])),
    ],
)
async def test_what_a_hook_answers_is_read(command: str, answer: HookAnswer, tmp_path: Path) -> None:
    assert await run(command, tmp_path) == answer


@pytest.mark.sample(10)
@pytest.mark.parametrize(
    ("command", "cause"),
    [
        ("exit 3", "ended with code 3"),
        ("echo broken >&2; exit 1", r"ended with code 1 \(broken\)"),
        ("no-such-program-here", "ended with code 127"),
        ("echo nonsense", "not JSON"),
        ("echo '[]'", "not a JSON object"),
        ("""echo '{"decision": "maybe"}'""", "not allow, ask or block"),
        ("""echo '{"arguments": 1}'""", "not an object"),
        ("""echo '{"reason": {}}'""", "not text"),
        ("""echo '{"hookSpecificOutput": {"permissionDecision": "deny"}}'""", "none of `decision`"),
        ("head -c 3000000 /dev/zero | tr '\\\\0' x", "larger than"),
        ("sleep 60", "within 0.3 s"),
        ("trap '' TERM INT; sleep 60 & wait", "within 0.3 s"),
        ("yes >&2", "within 0.3 s"),
    ],
)
async def test_a_hook_that_fails_says_why(command: str, cause: str, tmp_path: Path) -> None:
    slow = 0.3 if "0.3" in cause else 20.0
    with pytest.raises(HookError, match=cause):
        await run(command, tmp_path, timeout=slow)


async def test_nothing_that_a_hook_started_outlives_it(tmp_path: Path) -> None:
    await run("(sleep 0.5; touch late) > /dev/null 2>&1 & true", tmp_path)
    await asyncio.sleep(0.8)
    assert not (tmp_path / "late").exists()


async def test_a_large_call_reaches_a_hook_that_reads_nothing_of_it(tmp_path: Path) -> None:
    payload = {"event": "before_tool", "arguments": {"content": "x" * 2_000_000}}
    assert await run_hook(hook("true"), payload, tmp_path, ENVIRONMENT) == HookAnswer()


def test_the_stricter_of_two_answers_counts_and_the_later_rewriting() -> None:
    ask = HookAnswer("ask", "sure?", arguments={"a": 1})
    assert combine(ask, HookAnswer(arguments={"a": 2})) == HookAnswer("ask", "sure?", {"a": 2})
    assert combine(ask, parse_answer(b'{"decision": "block", "reason": "no"}')).decision == "block"


@pytest.mark.parametrize(
    ("match", "tool", "hears"),
    [
        ("*", "terminal", True),
        ("terminal|mcp__*", "terminal", True),
        ("terminal | mcp__*", "mcp__git__log", True),
        ("terminal|mcp__*", "read_file", False),
        ("term", "terminal", False),
        ("", "terminal", False),
        ("terminal", "", True),
    ],
)
def test_a_hook_hears_of_the_tools_it_is_meant_for(match: str, tool: str, hears: bool) -> None:
    assert hook("true", match=match).applies_to(tool) is hears


def hooks(found: list[Hook], folder: Path, told: list[Event]) -> SessionHooks:
    return SessionHooks(found, "s", folder, ENVIRONMENT, told.append)


async def test_a_later_hook_sees_what_an_earlier_one_rewrote_and_a_block_ends_the_row(tmp_path: Path) -> None:
    found = [
        hook("""echo '{"arguments": {"command": "ls"}}'"""),
        hook("cat > second"),
        hook("""echo '{"decision": "block", "reason": "enough"}'"""),
        hook("touch third"),
    ]
    answer = await hooks(found, tmp_path, []).before_tool("terminal", {"command": "rm x"})
    assert (answer.decision, answer.reason) == ("block", "enough")
    assert json.loads((tmp_path / "second").read_text())["arguments"] == {"command": "ls"}
    assert not (tmp_path / "third").exists()


async def test_a_failing_hook_is_told_once_and_blocks_only_if_it_is_required(tmp_path: Path) -> None:
    told: list[Event] = []
    loose = hooks([hook("exit 1")], tmp_path, told)
    for _ in range(3):
        assert (await loose.before_tool("terminal", {})).decision == "allow"
    assert len(told) == 1
    assert isinstance(told[0], Noticed)
    assert "`exit 1` for before_tool failed: it ended with code 1" in told[0].text
    strict = hooks([hook("exit 1", required=True)], tmp_path, told)
    answer = await strict.before_tool("terminal", {})
    assert answer.decision == "block"
    assert "required" in answer.reason


async def test_what_hooks_only_hear_of_arrives_in_order_and_before_the_end(tmp_path: Path) -> None:
    found = [Hook(event, "cat >> heard; echo >> heard") for event in ("after_tool", "session_end")]
    heard = hooks(found, tmp_path, [])
    for number in range(5):
        heard.notify("after_tool", "terminal", number=number)
    await heard.close()
    lines = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines() if line]
    assert [each.get("number") for each in lines] == [0, 1, 2, 3, 4, None]
    assert lines[-1]["event"] == "session_end"
