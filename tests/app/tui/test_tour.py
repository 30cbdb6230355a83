"""The tour from `/tour` to its end: the real application and engine; only the model is a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.events import AgentEnded, RequestResolved, ToolFinished
from agent.model import demo
from app.tui.questions import request_queue
from app.tui.questions.dialogs import ApprovalDialog, ClarifyDialog, ForecastDialog
from app.tui.screens import dialog as dialogs
from app.tui.screens.models.models import ModelsScreen
from tests.app.tui.test_application import Stage, stage
from tests.app.tui.test_going_back import notices
from tests.support.replies import call, say


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setattr(request_queue, "TYPING_PAUSE", 0.05)
    monkeypatch.setattr(demo, "SLOW", 0.3)
    monkeypatch.setattr(demo, "WORDS_DELAY", 0.0)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def armed(scene: Stage, kind: type) -> None:
    await scene.until(
        lambda: isinstance(scene.app.screen, kind) and getattr(scene.app.screen, "armed", True), kind.__name__
    )


async def idle(scene: Stage, words: str) -> None:
    """Wait for the end of the turn whose last answer contains `words`."""
    await scene.until(lambda: not scene.app.host.busy and words in scene.answers()[-1], words)


@pytest.mark.thorough
async def test_the_tour_does_what_it_says(tmp_path: Path) -> None:
    async with stage(tmp_path, [say("Yours.")], approve=None) as scene:
        await scene.type("mine", "enter")
        await idle(scene, "Yours.")
        own = scene.app.need_client().id
        before = files(scene.bench.workspace)
        await scene.type("/tour", "enter")

        await armed(scene, ClarifyDialog)
        await scene.pilot.press("down", "enter")
        await idle(scene, "Next: **steer.**")
        folder = tmp_path / "home-demo"
        assert scene.app.need_client().workspace == folder.resolve()
        assert "About approvals" in scene.answers()[-1]
        assert any(own in text for text in notices(scene))

        await scene.type("next", "enter")
        await scene.until(lambda: scene.app.host.busy and "Reading, slowly: 1" in scene.answers()[-1])
        await scene.type("enough", "ctrl+s")
        await idle(scene, "You steered: I read `enough`")
        assert sum("Reading, slowly" in text for text in scene.answers()) < 6

        await scene.type("next", "enter")
        await armed(scene, ApprovalDialog)
        workflow = folder / demo.FOLDER / ".github/workflows/greet.yml"
        assert (folder / demo.DIARY).exists() and not workflow.exists()
        await scene.pilot.press("1")
        await scene.until(workflow.exists, "what was allowed")
        await armed(scene, ApprovalDialog)
        await scene.pilot.press("5", *"mine", "enter")
        await idle(scene, "The first was allowed")
        assert "The second did not run" in scene.answers()[-1]
        assert scene.bench.seen(ToolFinished)[-1].outcome == "denied"
        assert [each.outcome for each in scene.bench.seen(RequestResolved)] == ["answered", "once", "deny"]

        await scene.type("next", "enter")
        await armed(scene, ForecastDialog)
        await scene.pilot.press("1")
        await idle(scene, "2 agents worked side by side")
        ended = scene.bench.seen(AgentEnded)
        assert [(each.outcome, each.cost) for each in ended] == [("done", 0.0)] * 2
        rows = scene.app.session.agents
        await scene.until(lambda: {row.state for row in rows.agents} == {"done"}, "the end of both rows")

        spared = files(folder)
        await scene.type("next", "enter")
        await idle(scene, "Press alt+u")
        assert files(folder) != spared
        await scene.pilot.press("alt+u")
        await scene.until(lambda: files(folder) == spared, "the bytes from before")
        await scene.until(lambda: scene.app.session.prompt.text, "the words come back")
        await scene.pilot.press("ctrl+c")
        await scene.type("check", "enter")
        await idle(scene, "no byte that differs")

        for word in ("Next: **the timeline**", "Next: **skins**", "Next: **connect a model.**"):
            await scene.type("skip", "enter")
            await idle(scene, word)
        await scene.type("next", "enter")
        await idle(scene, "That was the tour")
        await scene.pilot.press("alt+m")
        await scene.until(lambda: isinstance(scene.app.screen, ModelsScreen), "the models")
        await scene.pilot.press("escape")
        await scene.type(f"/resume {own}", "enter")
        await scene.until(lambda: scene.app.host.client and scene.app.need_client().id == own, "the way back")
        assert scene.app.need_client().workspace == scene.bench.workspace
        assert files(scene.bench.workspace) == before


async def test_a_running_turn_is_not_left_for_the_tour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(tmp_path, [call("clarify", question="Which?"), say("Done.")]) as scene:
        await scene.type("mine", "enter")
        await scene.until(lambda: scene.app.host.busy)
        own = scene.app.need_client().id
        said: list[str] = []
        monkeypatch.setattr(scene.app, "show_warning", said.append)
        await scene.app.actions.run_slash("tour")
        assert scene.app.need_client().id == own
        assert [text.split(";")[0] for text in said] == ["A turn is running"]
