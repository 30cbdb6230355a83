"""Scripts that are cut off, and what becomes of the calls they had made."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events import ApprovalAsked, Decision, Event, ToolFinished
from agent.session.conversation.script_journal import (
    KEPT_DAYS,
    Recorded,
    ScriptJournals,
    ScriptReplay,
    discard,
    fingerprint,
    read,
)
from tests.support import command
from tests.support.engines import Bench, bench
from tests.support.model_server import Recorded as Request
from tests.support.replies import Reply, call, say
from tools.results import ToolError

CODE = """
from hermes_tools import terminal, write_file
terminal("echo one >> log.txt")
write_file("made.txt", "made")
print(terminal("echo two >> log.txt; cat log.txt")["output"].split())
print(terminal({last!r})["output"])
terminal("echo three >> log.txt")
"""

DRIVER = f"""
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {str(command.ROOT)!r})
from agent.events import ApprovalAsked, Decision
from agent.session.options import Options
from agent.session.runtime import open_engine

work, approve, attended = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "attended"

def answer(event):
    if isinstance(event, ApprovalAsked):
        if ".vscode" in event.headline and "hermes_tools" not in event.headline:
            (work.parent / "asked").touch()
        else:
            event.reply.set_result(Decision("once"))

async def main():
    options = Options(workspace=work, approve=approve, attended=attended)
    engine = await open_engine(options, answer)
    await engine.run("go")

asyncio.run(main())
"""


def resuming(code: str, again: str = "") -> Callable[[Request], Reply]:
    """A model that runs a script, and `again` or the same with `resume` when it is told to."""

    def script(request: Request) -> Reply:
        results = [message["content"] for message in request.messages if message["role"] == "tool"]
        if not results:
            return call("execute_code", code=code)
        if found := re.search(r'resume=\\"(\w+)\\"', results[-1]):
            return call("execute_code", code=again or code, resume=found[1])
        return say("done")

    return script


async def killed(b: Bench, approve: str, attended: str, ready: Path, driver: str = DRIVER) -> None:
    """Run a turn in a process of its own and kill it once `ready` is there."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-c", driver, str(b.workspace), approve, attended),
        env=command.environment(b.home, b.server.base_url),
        cwd=b.workspace,
    )
    try:
        while not ready.exists() and process.returncode is None:
            await asyncio.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    assert ready.exists()


def results(b: Bench) -> list[dict[str, Any]]:
    """What the model was told by its calls, in the newest request."""
    messages = b.server.requests[-1].messages
    return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]


def journals(b: Bench) -> list[Path]:
    return sorted((b.home / "scripts").glob("*/*.jsonl"))


@pytest.mark.thorough
async def test_a_script_killed_while_it_waits_for_a_yes_goes_on_where_it_was(tmp_path: Path) -> None:
    code = CODE.format(last="rm -rf .vscode && echo gone")
    async with bench(tmp_path, resuming(code)) as b:
        (b.workspace / ".vscode").mkdir()
        await killed(b, "normal", "attended", tmp_path / "asked")
        assert (b.workspace / "log.txt").read_text() == "one\ntwo\n"
        (b.workspace / "made.txt").write_text("changed by hand")
        (journal,) = journals(b)
        assert journal.stat().st_mode & 0o777 == 0o600

        asked: list[str] = []

        def answer(event: Event) -> None:
            if isinstance(event, ApprovalAsked):
                asked.append(event.headline)
                event.reply.set_result(Decision("once"))

        async with b.engine(resume_last=True, approve="normal", attended=True) as engine:
            engine.stream.subscribe(answer)
            assert (await engine.run("go on")).outcome == "done"
        told, result = results(b)
        assert "3 calls of the script were completed (terminal ×2, write_file)" in told["note"]
        assert f"are kept in {journal}" in told["note"] and "rm -rf .vscode" in told["note"]
        assert result["status"] == "success"
        assert result["output"] == "['one', 'two']\ngone\n\n"
        assert [text for text in asked if text.startswith("rm")] == ["rm -rf .vscode && echo gone"]
        assert not any("log.txt; cat" in text for text in asked if "hermes_tools" not in text)
        assert not (b.workspace / ".vscode").exists()
        assert (b.workspace / "log.txt").read_text() == "one\ntwo\nthree\n"
        assert (b.workspace / "made.txt").read_text() == "changed by hand"
        inner = [event for event in b.seen(ToolFinished) if event.parent]
        assert [event.display.summary.startswith("from the record") for event in inner] == [True] * 3 + [
            False,
            False,
        ]
        assert journals(b) == []
        assert not b.server.refusals


@pytest.mark.thorough
async def test_a_call_that_ran_when_hermes_was_killed_is_reported_and_made_anew_each_time(
    tmp_path: Path,
) -> None:
    last = "echo begun >> begun.txt; test -e go-on || sleep 300; echo ended"
    async with bench(tmp_path, resuming(CODE.format(last=last))) as b:
        await killed(b, "yolo", "alone", b.workspace / "begun.txt")
        (b.workspace / "begun.txt").rename(b.workspace / "before.txt")
        again = DRIVER.replace("attended=attended", "attended=attended, resume_last=True")
        await killed(b, "yolo", "alone", b.workspace / "begun.txt", again)
        (b.workspace / "go-on").touch()
        await b.turn("go on", resume_last=True)
        *told, result = results(b)
        assert len(told) == 2
        for each in told:
            assert "3 calls" in each["note"] and "sleep 300" in each["note"]
            assert "perhaps done in part: terminal" in each["note"]
        assert (result["status"], result["output"]) == ("success", "['one', 'two']\nended\n\n")
        assert (b.workspace / "begun.txt").read_text() == "begun\n" * 2
        assert (b.workspace / "log.txt").read_text() == "one\ntwo\nthree\n"


async def interrupted(b: Bench, ready: Path) -> None:
    """Run a turn and stop it, as a person does, once `ready` is there."""
    async with b.engine() as engine:
        running = asyncio.create_task(engine.run("go"))
        while not ready.exists():
            await asyncio.sleep(0.01)
        engine.interrupt()
        assert (await running).outcome == "interrupted"


@pytest.mark.thorough
async def test_a_script_that_changed_is_answered_up_to_the_change(tmp_path: Path) -> None:
    code = CODE.format(last="touch begun.txt; sleep 300")
    changed = code.replace("echo two >> log.txt; cat", "echo 2 >> log.txt; cat").replace(
        "touch begun.txt; sleep 300", "echo ended"
    )
    async with bench(tmp_path, resuming(code, changed)) as b:
        await interrupted(b, b.workspace / "begun.txt")
        await b.turn("go on", resume_last=True)
        assert results(b)[-1]["output"] == "['one', 'two', '2']\nended\n\n"
        assert (b.workspace / "log.txt").read_text() == "one\ntwo\n2\nthree\n"


@pytest.mark.thorough
async def test_a_script_that_is_stopped_at_its_time_limit_can_be_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "work" / "begun.txt"
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 100_000 * begun.exists())
    monkeypatch.setattr("tools.code.data.time", clock)
    code = CODE.format(last="test -e begun.txt || { touch begun.txt; sleep 300; }; echo ended")
    async with bench(tmp_path, resuming(code)) as b:
        await b.turn("go")
        told, result = results(b)
        assert told["status"] == "timeout" and "3 calls" in told["note"]
        assert result["output"] == "['one', 'two']\nended\n\n"
        assert (b.workspace / "log.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.thorough
async def test_a_script_that_a_person_stops_can_be_gone_on_with(tmp_path: Path) -> None:
    code = CODE.format(last="test -e begun.txt || { touch begun.txt; sleep 300; }; echo ended")
    async with bench(tmp_path, resuming(code)) as b:
        await interrupted(b, b.workspace / "begun.txt")
        await b.turn("go on", resume_last=True)
        told, result = results(b)
        assert told["status"] == "interrupted" and "3 calls" in told["note"]
        assert result["output"] == "['one', 'two']\nended\n\n"
        assert (b.workspace / "log.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.thorough
async def test_a_script_that_ends_by_itself_leaves_no_journal_and_an_unknown_one_is_told(
    tmp_path: Path,
) -> None:
    def script(request: Request) -> Reply:
        step = sum(message["role"] == "tool" for message in request.messages)
        named = ("", "", "", "00000000", "../../x")[step] if step < 5 else ""
        code = "from hermes_tools import terminal\nterminal('echo x >> log.txt')\n" + "1/0" * (step == 1)
        return call("execute_code", code=f"# {step}\n{code}", resume=named) if step < 5 else say("done")

    async with bench(tmp_path, script) as b:
        await b.turn("go")
        assert [result["status"] for result in results(b)[:3]] == ["success", "error", "success"]
        assert all("Nothing is recorded" in result["error"] for result in results(b)[3:])
        assert (b.workspace / "log.txt").read_text() == "x\n" * 3
        assert journals(b) == []


@pytest.mark.thorough
async def test_a_journal_holds_no_secrets_and_the_text_the_script_saw(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    code = f"""
from hermes_tools import terminal
text = terminal("echo {token}; seq 9000")["output"]
open("seen.txt", "w").write(text)
terminal("test -e begun.txt || {{ touch begun.txt; sleep 300; }}")
"""
    async with bench(tmp_path, resuming(code)) as b:
        await interrupted(b, b.workspace / "begun.txt")
        (journal,) = journals(b)
        assert token not in journal.read_text()
        record = read(journal)
        assert record is not None and record.calls[0].result is not None
        seen = (b.workspace / "seen.txt").read_text()
        assert json.loads(record.calls[0].result)["output"] == seen and len(seen) > 20_000
        (b.workspace / "seen.txt").unlink()
        await b.turn("go on", resume_last=True)
        assert (b.workspace / "seen.txt").read_text() == seen


@pytest.mark.thorough
async def test_a_wait_for_a_yes_longer_than_the_limit_costs_no_script_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
from hermes_tools import gather, terminal
print(*[r["output"].strip() for r in gather(lambda: terminal("rm -rf .vscode; echo 1"),
                                            lambda: terminal("rm -rf .vscode; echo 2"))])
"""
    late = 0.0
    monkeypatch.setattr("tools.code.data.time", SimpleNamespace(monotonic=lambda: time.monotonic() + late))

    async def answer(event: ApprovalAsked) -> None:
        nonlocal late
        if "hermes_tools" not in event.headline:
            late += 100_000
            # The watch over the script looks at its clock meanwhile.
            await asyncio.sleep(0.5)
        event.reply.set_result(Decision("once"))

    answers: list[asyncio.Task[None]] = []

    def listen(event: Event) -> None:
        if isinstance(event, ApprovalAsked):
            answers.append(asyncio.create_task(answer(event)))

    async with bench(tmp_path, resuming(code)) as b:
        async with b.engine(approve="normal", attended=True) as engine:
            engine.stream.subscribe(listen)
            await engine.run("go")
        (result,) = results(b)
        assert (result["status"], result["output"], late) == ("success", "1 2\n", 200_000)
        assert result["duration_seconds"] < 100_000


def recorded(number: int, name: str, after: int, place: int | None, outcome: str = "done") -> Recorded:
    result = f'"{name}"' if outcome == "done" else None
    return Recorded(
        number=number,
        tool=name,
        sum=name,
        arguments="",
        after=after,
        place=place,
        outcome=outcome,
        result=result,
    )


def taken(replay: ScriptReplay, names: str) -> str:
    """Which of the calls were answered."""
    return "".join(name if replay.take(name) is not None else "-" for name in names)


def test_calls_one_after_the_other_are_answered_in_order_until_one_differs() -> None:
    calls = [recorded(n + 1, name, n, n) for n, name in enumerate("aabc")]
    assert taken(ScriptReplay(calls), "aabc") == "aabc"
    assert taken(ScriptReplay(calls), "aabcd") == "aabc-"
    assert taken(ScriptReplay(calls), "aaxbc") == "aa---"
    assert taken(ScriptReplay(calls), "abaa") == "a---"
    assert taken(ScriptReplay(), "aa") == "--"


def test_calls_side_by_side_may_come_in_another_order() -> None:
    calls = [recorded(1, "a", 0, 2), recorded(2, "b", 0, 0), recorded(3, "c", 0, 1), recorded(4, "d", 3, 3)]
    assert taken(ScriptReplay(calls), "cabd") == "cabd"
    assert taken(ScriptReplay(calls), "cadb") == "ca--"


def test_what_came_after_a_call_that_was_not_completed_is_made_anew_and_what_ran_beside_it_is_not() -> None:
    refused = recorded(1, "a", 0, 0, "denied")
    assert taken(ScriptReplay([refused, recorded(2, "b", 1, 1)]), "ab") == "--"
    open_ended = [recorded(1, "a", 0, None, ""), recorded(2, "b", 0, 0), recorded(3, "c", 1, 1)]
    assert taken(ScriptReplay(open_ended), "abc") == "-bc"


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_a_script_is_answered_exactly_as_far_as_it_does_the_same(before: list[str], now: list[str]) -> None:
    calls = [recorded(n + 1, name, n, n) for n, name in enumerate(before)]
    same = next((n for n, (one, two) in enumerate(zip(before, now, strict=False)) if one != two), None)
    same = min(len(before), len(now)) if same is None else same
    assert taken(ScriptReplay(calls), "".join(now)) == "".join(now[:same]) + "-" * (len(now) - same)


def test_calls_are_the_same_by_tool_and_exact_arguments() -> None:
    one = fingerprint("terminal", {"command": "ls", "timeout": 5})
    assert one == fingerprint("terminal", {"timeout": 5, "command": "ls"})
    others = [{"command": "ls "}, {"command": "ls", "timeout": 5.5}, {"command": "ls", "timeout": "5"}]
    assert len({one, *(fingerprint("terminal", each) for each in others)}) == 4
    assert one != fingerprint("process", {"command": "ls", "timeout": 5})
    assert fingerprint("terminal", {"command": "\ud800"})


async def test_a_journal_cut_at_any_byte_tells_no_call_done_that_was_not(tmp_path: Path) -> None:
    journal = ScriptJournals(tmp_path / "s").new("call", 7)
    for number in (1, 2):
        await journal.begin(number, "terminal", str(number), "{}", durable=True)
        await journal.end(number, "done", '{"output": "ü"}', durable=False)
    whole = journal.path.read_bytes()
    ends = [match.end() for match in re.finditer(rb'"end".*\n', whole)]
    for cut in range(len(whole) + 1):
        journal.path.write_bytes(whole[:cut])
        record = read(journal.path)
        done = [call for call in record.calls if call.is_completed] if record is not None else []
        # A line that lacks only its newline is whole.
        assert len(done) == sum(cut >= end - 1 for end in ends)
        assert all(call.result == '{"output": "ü"}' for call in done)


async def test_only_the_journal_of_this_very_call_is_told_of(tmp_path: Path) -> None:
    journals = ScriptJournals(tmp_path / "s")
    earlier = journals.new("call_1", 10)
    await earlier.begin(1, "terminal", "x", "{}", durable=False)
    assert "terminal" in await journals.left_by("call_1", 10)
    assert await journals.left_by("call_1", 11) == ""
    assert await journals.left_by("call_2", 10) == ""
    with pytest.raises(ToolError, match="leave `resume` out"):
        await journals.replay("../s/" + earlier.script)


async def test_old_journals_and_those_of_deleted_sessions_go(tmp_path: Path) -> None:
    old = ScriptJournals(tmp_path / "one").new("call", 1)
    await old.begin(1, "terminal", "x", "{}", durable=False)
    long_ago = old.path.stat().st_mtime - (KEPT_DAYS + 1) * 86_400
    os.utime(old.path, (long_ago, long_ago))
    new = ScriptJournals(tmp_path / "two").new("call", 1)
    await new.begin(1, "terminal", "x", "{}", durable=False)
    assert not old.path.exists() and new.path.exists()
    discard(tmp_path, ["two", "never"])
    assert not (tmp_path / "two").exists() and tmp_path.exists()


async def test_a_clock_a_year_ahead_takes_no_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    morning = ScriptJournals(tmp_path / "one").new("call", 1)
    await morning.begin(1, "terminal", "x", "{}", durable=False)
    now = time.time()
    monkeypatch.setattr("agent.session.conversation.script_journal.time.time", lambda: now + 365 * 86_400)
    later = ScriptJournals(tmp_path / "two").new("call", 1)
    await later.begin(1, "terminal", "x", "{}", durable=False)
    assert morning.path.exists() and later.path.exists()


@pytest.mark.thorough
async def test_a_call_that_cannot_be_taken_down_is_not_made(tmp_path: Path) -> None:
    code = "from hermes_tools import terminal\nprint(terminal('touch made.txt')['error'])\n"
    async with bench(tmp_path, resuming(code)) as b:
        b.home.mkdir(mode=0o700)
        (b.home / "scripts").write_text("in the way")
        await b.turn("go")
        assert "cannot" in results(b)[0]["output"].lower()
        assert not (b.workspace / "made.txt").exists()
