"""Faults put into everything that stands around a turn: helpers never end it, guards refuse the call."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.hook_list import Hook, HookAnswer
from agent.events import Noticed, ToolFinished
from agent.integrations.diagnostics.service import LanguageServers
from agent.integrations.hooks import session_hooks
from agent.integrations.hooks.session_hooks import HookConsent, SessionHooks
from agent.knowledge.learnings.at_calls import CallLearnings
from agent.knowledge.learnings.store import LearningStore
from agent.knowledge.recall.recall import Recall
from agent.knowledge.skills.keeper import SessionSkills
from agent.knowledge.skills.viewing import CapabilitiesInForce
from agent.model.usage import Meter
from agent.safety.audit.log import AuditRecorder
from agent.safety.gate import Gate
from agent.session.conversation.live_session import LiveSession
from agent.session.engine import Engine
from agent.session.history.navigation import HistoryNavigation
from agent.session.turns import call_runner
from agent.session.turns.attaching import ReferenceReader
from agent.session.turns.call_runner import RepeatGuard
from agent.session.turns.dialogue import Dialogue, ServerNews
from agent.session.turns.reached_folders import ReachedFolders
from agent.session.turns.request_record import RequestRecorder
from agent.session.turns.room import ContextRoom
from agent.session.turns.task_state import CallFiles, LiveFiles
from agent.session.turns.unasked_changes import BackgroundChanges, UnaskedChanges
from agent.workspace.checkpoints.recorder import StepRecorder
from tests.support.engines import Bench, bench
from tests.support.replies import call, calls, say

FAULT = "drawn by the test"


def fails(*_given: object, **_named: object) -> Any:
    raise RuntimeError(FAULT)


HELPERS: tuple[tuple[Any, str], ...] = (
    (CallLearnings, "turn_began"),
    (CallLearnings, "before"),
    (CallLearnings, "after"),
    (LearningStore, "for_calls"),
    (ReachedFolders, "_note"),
    (ReachedFolders, "add_rules"),
    (ReachedFolders, "deliver"),
    (UnaskedChanges, "take_back"),
    (UnaskedChanges, "settle"),
    (UnaskedChanges, "forgo"),
    (StepRecorder, "_finish"),
    (SessionHooks, "before_tool"),
    (SessionHooks, "transform_result"),
    (SessionHooks, "before_response"),
    (RepeatGuard, "note"),
    (LiveFiles, "deliver"),
    (call_runner, "shown_masked"),
    (LanguageServers, "after"),
    (Meter, "add"),
    (Meter, "totals"),
    (ServerNews, "renew"),
    (ServerNews, "unseen"),
    (ServerNews, "name_reply"),
    (Dialogue, "take_record"),
    (RequestRecorder, "begin"),
    (RequestRecorder, "record"),
    (ContextRoom, "keep"),
    (ReferenceReader, "__call__"),
    (SessionSkills, "expand_command"),
    (CapabilitiesInForce, "leave"),
    (HistoryNavigation, "place"),
    (HistoryNavigation, "turn_over"),
)
UNHEARD: tuple[tuple[Any, str], ...] = ((Recall, "index_soon"),)
"""Listeners, of which only the log says that they failed."""

GUARDS: tuple[tuple[Any, str], ...] = (
    (Gate, "permit"),
    (AuditRecorder, "_record"),
    (StepRecorder, "during"),
    (StepRecorder, "_note"),
    (StepRecorder, "_note_path"),
    (StepRecorder, "_record_others"),
    (BackgroundChanges, "look"),
    (CallFiles, "seen_file"),
    (call_runner.CallRunner, "_refusal"),
    (call_runner, "hooked_call"),
)


def turn(number: int) -> list[Any]:
    """A turn with calls of all kinds, several at once, of which one fails."""
    return [
        calls(
            ("read_file", {"path": "misspelt.txt"}),
            ("read_file", {"path": "one.txt"}),
            ("read_file", {"path": "two.txt"}),
            ("write_file", {"path": f"new{number}.py", "content": "x = 1\n"}),
            ("terminal", {"command": f"echo {number} > made{number}.txt"}),
        ),
        say("done"),
    ]


def script(turns: int) -> Any:
    replies = [reply for number in range(turns) for reply in turn(number)]
    return lambda request: replies.pop(0)


async def outcomes(b: Bench, engine: Engine) -> tuple[str, str, list[str]]:
    """How a turn and its calls ended."""
    b.events.clear()
    ended = await engine.run("look at @file:one.txt")
    return ended.outcome, ended.error, sorted(event.outcome for event in b.seen(ToolFinished))


@asynccontextmanager
async def opened(tmp_path: Path, turns: int) -> AsyncIterator[tuple[Bench, Engine]]:
    async with bench(tmp_path, script(turns)) as b:
        for name in ("one.txt", "two.txt"):
            (b.workspace / name).write_text(f"{name}\n")
        async with b.engine() as engine:
            yield b, engine


@pytest.mark.thorough
async def test_faults_in_all_helpers_at_once_end_no_turn_and_change_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, 2) as (b, engine):
        usual = await outcomes(b, engine)
        assert usual == ("done", "", ["done"] * 4 + ["failed"])
        with monkeypatch.context() as patched:
            for owner, name in (*HELPERS, *UNHEARD):
                patched.setattr(owner, name, fails)
            assert await outcomes(b, engine) == usual
        told = [event.text for event in b.seen(Noticed) if FAULT in event.text]
        assert len(set(told)) == len(told) > 12


@pytest.mark.thorough
async def test_a_fault_in_each_helper_in_turn_is_told_once_and_stands_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = [(each, True) for each in HELPERS] + [(each, False) for each in UNHEARD]
    async with opened(tmp_path, len(table) + 1) as (b, engine):
        usual = await outcomes(b, engine)
        for (owner, name), is_told in table:
            helper = f"{owner.__name__}.{name}"
            caplog.clear()
            with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
                patched.setattr(owner, name, fails)
                assert await outcomes(b, engine) == usual, helper
            told = [event.text for event in b.seen(Noticed) if FAULT in event.text]
            assert len(set(told)) == len(told) and bool(told) == is_told, (helper, told)
            assert FAULT in caplog.text, helper


@pytest.mark.thorough
async def test_where_a_guard_fails_the_call_is_refused_in_a_sentence_and_the_turn_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, len(GUARDS) + 1) as (b, engine):
        for number, (owner, name) in enumerate(GUARDS):
            guard = f"{owner.__name__}.{name}"
            (b.workspace / f"new{number}.py").write_text("old\n")
            with monkeypatch.context() as patched:
                patched.setattr(owner, name, fails)
                outcome, error, ends = await outcomes(b, engine)
            assert (outcome, error, len(ends)) == ("done", "", 5), guard
            refused = [event for event in b.seen(ToolFinished) if event.outcome == "failed"]
            wrote = (b.workspace / f"new{number}.py").read_text() != "old\n"
            ran = (b.workspace / f"made{number}.txt").exists()
            assert not (wrote and ran), guard
            assert all(json.loads(each.result)["error"] for each in refused), guard
        assert (await outcomes(b, engine))[2].count("done") == 4


@pytest.mark.thorough
async def test_a_required_hook_that_breaks_refuses_the_call_and_another_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_given: object) -> HookAnswer:
        raise RuntimeError(FAULT)

    replies = [
        reply for each in range(2) for reply in (call("write_file", path=f"{each}", content="x"), say("ok"))
    ]
    async with bench(tmp_path, lambda request: replies.pop(0)) as b:
        monkeypatch.setattr(session_hooks, "run_hook", broken)
        for number, required in enumerate((True, False)):
            hook = Hook(event="before_tool", command="true", required=required)
            b.config(
                f"hooks:\n  before_tool:\n    - command: 'true'\n      required: {str(required).lower()}\n"
            )
            HookConsent(b.home / "hooks.json").agree([hook])
            b.events.clear()
            assert (await b.turn("go")).outcome == ("denied" if required else "done")
            (ended,) = b.seen(ToolFinished)
            assert (b.workspace / str(number)).exists() is not required
            assert (FAULT in ended.result) is required


async def test_reads_at_once_after_a_read_that_failed_all_get_their_result(tmp_path: Path) -> None:
    names = [f"f{number}.txt" for number in range(8)]
    replies = [
        call("read_file", path="f0.txx"),
        calls(*(("read_file", {"path": name}) for name in names)),
        say("done"),
    ]
    async with bench(tmp_path, lambda request: replies.pop(0)) as b:
        for name in names:
            (b.workspace / name).write_text(name)
        ended = await b.turn("read")
        assert (ended.outcome, ended.exit_code) == ("done", 0)
        assert [event.outcome for event in b.seen(ToolFinished)].count("done") == 8


async def test_a_store_without_drafts_only_loses_drafts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.session.turns.dialogue.DRAFT_SECONDS", 0.0)
    monkeypatch.setattr(LiveSession, "save_draft", fails)
    async with bench(tmp_path, lambda request: say("a long answer " * 50)) as b:
        assert (await b.turn("go")).outcome == "done"
