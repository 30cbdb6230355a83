"""Agents with a model of their own keep it, whatever became of the process that sent them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.session.spending.report import overview
from agent.session.spending.request_table import SENT
from tests.agent.session.subagents.test_delegation import asked, team, until
from tests.agent.session.subagents.test_recovery import killed_while
from tests.support.engines import Bench
from tests.support.model_server import call, say
from tests.support.replies import Reply
from tests.support.team import UNASKED, report, task_of

MODELS = """\
providers:
  lab:
    base_url: {url}
    models:
      small: {{context_window: 90000, input_price: 1.0, output_price: 2.0, cached_price: 0.1}}
"""
KIND = """\
---
name: digger
description: Digs.
model: lab/small
budget: {turns: 9}
---
You dig.
"""


def child(request: Any) -> Reply:
    if "Continue where you stopped" in str(request.messages[-1]["content"]):
        return say(report("Went on."))
    return say("word " * 4_000, pace=0.02)


def asked_models(made: Bench) -> list[str]:
    return [request.body["model"] for request in made.server.requests if task_of(request) == "child"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", [{"model": "lab/small"}, {"agent": "digger"}], ids=["call", "kind"])
async def test_after_a_kill_an_agent_goes_on_with_its_own_model_and_is_metered_at_its_price(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    scripts = {"main": [call("delegate_task", goal="child", **how)], "child": child}
    async with team(tmp_path, scripts) as made:
        made.config(UNASKED + MODELS.format(url=made.server.base_url))
        (made.home / "agents").mkdir(parents=True)
        kind = made.home / "agents" / "digger.md"
        kind.write_text(KIND)
        session = await killed_while(made, lambda: asked(made, "child"))
        # What it was sent with counts, not what such agents are sent with by now.
        kind.write_text(KIND.replace("lab/small", "lab/other"))
        async with made.engine(resume=session) as engine:
            run = engine.scheduler.run("agent-1")
            assert (run.standing, run.record.model, run.task.model) == (
                "interrupted",
                "lab/small",
                "lab/small",
            )
            await engine.scheduler.resume("agent-1")
            (after,) = await engine.scheduler.wait(["agent-1"])
            assert (after.outcome, after.summary) == ("completed", "Went on.")
            assert after.usage.cost is not None and after.usage.cost > 0
            (line,) = [each for each in (await overview(engine.metering)).session if each.key == SENT]
            assert (line.requests, line.unpriced) == (1, 0)
        assert asked_models(made) == ["small", "small"]


@pytest.mark.thorough
async def test_where_its_model_is_not_configured_any_more_it_fails_with_a_sentence_and_can_go_on_later(
    tmp_path: Path,
) -> None:
    scripts = {"main": [call("delegate_task", goal="child", model="lab/small")], "child": child}
    async with team(tmp_path, scripts) as made:
        made.config(UNASKED + MODELS.format(url=made.server.base_url))
        session = await killed_while(made, lambda: asked(made, "child"))
        made.config(UNASKED)
        async with made.engine(resume=session) as engine:
            await engine.scheduler.resume("agent-1")
            (after,) = await engine.scheduler.wait(["agent-1"])
            assert after.outcome == "failed" and "There is no provider 'lab'" in after.error
        sent = len(made.server.requests)
        made.config(UNASKED + MODELS.format(url=made.server.base_url))
        async with made.engine(resume=session) as engine:
            await engine.scheduler.resume("agent-1", "Continue where you stopped.")
            (after,) = await engine.scheduler.wait(["agent-1"])
            assert after.summary == "Went on."
            await until(made, lambda: len(made.server.requests) == sent + 1)
        assert asked_models(made) == ["small", "small"]
