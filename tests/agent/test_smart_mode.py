"""The smart mode in a whole session: settings, dialog, audit log, usage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.events import ApprovalAsked, Decision, Event, Noticed, SessionOpened
from agent.safety.audit.log import newest
from tests.support.engines import Bench, bench
from tests.support.replies import Reply, by_step, call, refuse, say

CONFIG = """
safety:
  smart: {model: judge}
providers:
  custom:
    base_url: %s
    models:
      judge: {input_price: 1.0, output_price: 1.0, cached_price: 1.0}
      scripted: {input_price: 1.0, output_price: 1.0, cached_price: 1.0}
"""
TOKEN = "ghp_" + "a1B2" * 9


def two(steps: list[Reply], judge: Reply) -> Any:
    """A server on which both models are: `judge`, and the one that works."""
    work = by_step(steps)
    return lambda request: judge if request.body["model"] == "judge" else work(request)


def judged(b: Bench) -> list[Any]:
    return [request for request in b.server.requests if request.body["model"] == "judge"]


def answering(choice: Any, asked: list[ApprovalAsked]) -> Any:
    def listen(event: Event) -> None:
        if isinstance(event, ApprovalAsked):
            asked.append(event)
            event.reply.set_result(Decision(choice))

    return listen


async def test_it_is_off_by_default(tmp_path: Path) -> None:
    async with bench(tmp_path, two([call("terminal", command="ls"), say("x")], say("?"))) as b:
        await b.turn("go")
        assert judged(b) == []


@pytest.mark.thorough
async def test_what_it_says_is_shown_as_its_opinion_taken_down_and_paid_for(tmp_path: Path) -> None:
    judge = say('{"verdict": "ask", "reasons": ["runs \\u001b[31mfetched code"]}')
    steps = [call("terminal", command=f"ls # {TOKEN}"), say("done"), say("again")]
    async with bench(tmp_path, two(steps, judge)) as b:
        b.config(CONFIG % b.server.base_url)
        asked: list[ApprovalAsked] = []
        async with b.engine(approve="normal", attended=True, model="custom/scripted") as engine:
            engine.stream.subscribe(answering("once", asked))
            end = await engine.run("go")
        assert end.outcome == "done"
        assert [event.reasons for event in asked] == [("side model: runs fetched code",)]
        (request,) = judged(b)
        assert TOKEN not in json.dumps(request.messages)
        (entry,) = [each for each in newest(b.home / "audit", 9) if each.tool == "terminal"]
        assert (entry.judge, entry.outcome) == ("person", "allowed")
        assert entry.record["advice"] == "custom/judge said ask (runs fetched code)"
        assert end.usage["requests"] == 3
        assert isinstance(end.usage["cost"], float) and end.usage["cost"] > 0
        async with b.engine(resume_last=True, model="custom/scripted") as engine:
            again = await engine.run("and now")
        assert again.usage["requests"] == 4
        assert isinstance(again.usage["cost"], float) and again.usage["cost"] > end.usage["cost"]
        assert not b.server.refusals


@pytest.mark.thorough
async def test_a_call_of_a_script_is_looked_at_too_and_can_be_refused(tmp_path: Path) -> None:
    code = "from hermes_tools import terminal\nprint(terminal('touch made.txt')['error'])\n"

    def script(request: Any) -> Reply:
        if request.body["model"] != "judge":
            return by_step([call("execute_code", code=code), say("done")])(request)
        said = "deny" if '"command": "touch made.txt"' in request.messages[-1]["content"] else "allow"
        return say(json.dumps({"verdict": said, "reasons": ["not wanted"]}))

    async with bench(tmp_path, script) as b:
        b.config(CONFIG % b.server.base_url)
        await b.turn("go", model="custom/scripted")
        result = json.loads(b.server.requests[-1].messages[-1]["content"])
        assert "side model: not wanted" in result["output"]
        assert not (b.workspace / "made.txt").exists()
        assert len(judged(b)) == 2


async def test_when_it_does_not_answer_the_rules_decide_and_that_is_told(tmp_path: Path) -> None:
    steps = [call("terminal", command="touch made.txt"), say("done")]
    async with bench(tmp_path, two(steps, refuse(503, "down"))) as b:
        b.config(CONFIG % b.server.base_url)
        await b.turn("go", model="custom/scripted")
        assert (b.workspace / "made.txt").exists()
        warnings = [event.text for event in b.seen(Noticed) if event.kind == "warning"]
        assert len(warnings) == 1 and "custom/judge could not be asked" in warnings[0]
        (entry,) = [each for each in newest(b.home / "audit", 9) if each.tool == "terminal"]
        assert "could not be asked" in entry.record["advice"]


async def test_a_side_model_that_cannot_be_reached_as_configured_is_told_at_the_start(tmp_path: Path) -> None:
    async with bench(tmp_path, two([say("hi")], say("?"))) as b:
        far = "providers:\n  far: {base_url: 'https://far.example/v1', api_key_env: FAR_KEY}\n"
        for name in ("far/judge", "demo"):
            b.events.clear()
            b.config(f"{far}safety:\n  smart: {{model: {name}}}\n")
            assert (await b.turn("go")).outcome == "done"
            assert b.seen(SessionOpened)
            assert any("safety.smart.model" in event.text for event in b.seen(Noticed))
