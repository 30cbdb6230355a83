"""Merging what agents changed in copies: the screen, and the whole way in the application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.core.store.operations import Operation
from agent.errors import HermesError
from agent.workspace.checkpoints.entries import PathEntry, PathKind
from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.restore.ref_plan import PlanItem
from app.tui.commands.merging import MergeScreen, agent_to_merge, merge_copy
from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import ConfirmDialog
from app.tui.screens.history.restoring import MERGE, PlanRows
from tests.app.tui.going_back_stage import HUNKS, PLAN, RESTORE, entry
from tests.app.tui.pages import PageHost, lines_of, pressing
from tests.app.tui.test_application import Stage, stage
from tests.app.tui.test_going_back import notices, screen
from tests.support.replies import Reply, call, say
from tests.support.sessions import engine_of
from tests.support.team import by_task, report

FOLDER = PathEntry(PathKind.FOLDER, 0o755)
PACKAGE = RestorePlan(
    PLAN.root,
    3,
    (
        PlanItem("shop", None, FOLDER, "change"),
        PlanItem("shop/tax", None, FOLDER, "change"),
        PlanItem("shop/tax/rates.py", None, entry("RATES = ()\n"), "change"),
        PlanItem("shopping.md", None, entry("- rice\n"), "change"),
    ),
)
SCENES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "merge": (lambda: MergeScreen(PLAN, RESTORE), ()),
    "merge-theirs": (lambda: MergeScreen(PLAN, RESTORE, agent="prices (agent-1)", place="1 of 3"), ("2",)),
    "merge-both": (lambda: MergeScreen(PLAN, RESTORE), ("b",)),
    "merge-none": (lambda: MergeScreen(HUNKS, RESTORE), ("M",)),
    "merge-folder": (lambda: MergeScreen(PACKAGE, RESTORE), ("m", "j", "j")),
    "merge-hunks": (lambda: MergeScreen(HUNKS, RESTORE), ("enter", "G", "space", "escape")),
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


@pytest.mark.thorough
@pytest.mark.parametrize("size", ((80, 24), (120, 40)), ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", SCENES)
def test_a_merge_looks_as_it_should(snap_compare: Any, name: str, size: tuple[int, int]) -> None:
    make, keys = SCENES[name]
    assert snap_compare(PageHost(make), terminal_size=size, run_before=pressing(*keys))


@pytest.mark.sample(1)
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("agent", "place", "title"),
    [
        ("", "", "Before a copy is merged"),
        ("agent-1", "", "Merge agent-1"),
        ("prices (agent-1)", "1 of 3", "Merge 1 of 3: prices (agent-1)"),
        ("[b]x[/b]\x1b]0;y\x07\n(agent-1)", "1 of 3", "Merge 1 of 3: [b]x[/b] (agent-1)"),
        ("a name without end " * 9, "2 of 3", "Merge 2 of 3: a name without e"),
    ],
)
async def test_the_title_tells_whose_copy_it_is_and_the_state_what_is_in_it(
    agent: str, place: str, title: str, width: int
) -> None:
    host = PageHost(lambda: MergeScreen(PLAN, RESTORE, agent=agent, place=place))
    async with host.run_test(size=(width, 24)) as pilot:
        await host.workers.wait_for_complete()
        await pilot.pause()
        left, right = (
            host.screen.query_one(f"#page-{part}").render_line(0).text for part in ("title", "state")
        )
        assert left.startswith(title)
        assert right.strip().startswith("6 files · 2 in conflict")
        assert (len(left) > len(title)) is title.endswith("without e")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("keys", "out"),
    [
        ("", ()),
        ("m", ("shop/tax", "shop/tax/rates.py")),
        ("m2", ()),
        ("mj2", ("shop/tax", "shop/tax/rates.py")),
        ("jm", ("shop/tax/rates.py",)),
        ("mjm", ("shop/tax/rates.py",)),
        ("mjjm", ("shop/tax",)),
        ("M", ()),
        ("jjm", ()),
    ],
)
async def test_what_stays_out_with_its_folder_says_so(keys: str, out: tuple[str, ...]) -> None:
    host = PageHost(lambda: MergeScreen(PACKAGE, RESTORE))
    async with host.run_test(size=(120, 24)) as pilot:
        await host.workers.wait_for_complete()
        await pilot.press(*keys)
        await pilot.pause()
        lines = lines_of(host.screen.query_one(PlanRows))[: len(PACKAGE.items)]
        said = [item.path for item, line in zip(PACKAGE.items, lines, strict=True) if "stays out" in line]
        assert tuple(said) == out


@pytest.mark.parametrize(
    ("argument", "agent"),
    [
        ("merge agent-2", "agent-2"),
        ("merge  3", "agent-3"),
        ("merge all", "all"),
        ("merge", None),
        ("x y", None),
    ],
)
def test_the_command_names_an_agent_or_says_how_to(argument: str, agent: str | None) -> None:
    if agent is not None:
        assert agent_to_merge(argument) == agent
        return
    with pytest.raises(HermesError, match="/agents merge agent-1"):
        agent_to_merge(argument)


@asynccontextmanager
async def sent(folder: Path, *tools: Reply, text: str = "one\ntwo\n") -> AsyncIterator[Stage]:
    """The application after an agent has done something in a copy of its own."""
    delegate = call("delegate_task", goal="child", isolation="copy")
    scripts = {"main": [delegate, say("Look at it.")], "child": [*tools, say(report("Changed."))]}
    async with stage(folder, by_task(scripts), size=(100, 30)) as scene:
        (scene.bench.workspace / "a.txt").write_text(text)
        scene.app.message_sender.send("Go.")
        await scene.quiet(1)
        yield scene


def told(scene: Stage) -> list[str]:
    """Notices about the agent; the watcher has its own."""
    return [text for text in notices(scene) if "agent-1" in text]


def copies(folder: Path) -> list[Path]:
    return [path for path in (folder / "home" / "copies").iterdir() if path.is_dir()]


CHANGES = (
    call("write_file", path="a.txt", content="one\n2\n"),
    call("write_file", path="new.txt", content="new\n"),
)


@pytest.mark.thorough
async def test_nothing_is_decided_about_while_the_agent_works(tmp_path: Path) -> None:
    delegate = call("delegate_task", goal="child", isolation="copy")
    answers = [delegate, say("Look at it."), say("On and on.", piece=1, pace=30)]
    scripts = {"main": answers, "child": [*CHANGES, say(report("Changed."))]}
    async with stage(tmp_path, by_task(scripts), size=(100, 30)) as scene:
        (scene.bench.workspace / "a.txt").write_text("one\ntwo\n")
        scene.app.message_sender.send("Go.")
        await scene.quiet(1)
        scene.app.message_sender.send("More.")
        await scene.until(lambda: scene.app.host.busy, "work")
        for agent in ("agent-1", "all"):
            with pytest.raises(HermesError, match="works at the moment"):
                await merge_copy(scene.app, agent)
        assert len(scene.app.screen_stack) == 1 and len(copies(tmp_path)) == 1
        await scene.pilot.press("escape")
        await scene.until(lambda: not scene.app.host.busy, "the end")


@pytest.mark.thorough
async def test_a_on_an_agent_shows_its_changes_and_merges_what_is_chosen(tmp_path: Path) -> None:
    async with sent(tmp_path, *CHANGES) as scene:
        workspace = scene.bench.workspace
        pane = scene.app.session.agents
        scene.app.session.workbench.open("agents")
        await scene.until(lambda: pane.has_focus and pane.selected_agent is not None)
        await scene.pilot.press("a")
        await scene.until(screen(scene, MergeScreen))
        await scene.pilot.press("j", "m", "a")
        await scene.until(lambda: told(scene))
        assert told(scene)[-1].startswith("agent-1: 1 path merged; 1 left as it is: new.txt")
        assert "The rest is still in its copy." in told(scene)[-1]
        assert (workspace / "a.txt").read_text() == "one\n2\n"
        assert not (workspace / "new.txt").exists()
        await scene.pilot.press("alt+u")
        await scene.until(lambda: len(told(scene)) == 2)
        assert "Undone: merge of agent-1." in told(scene)[-1]
        assert (workspace / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.thorough
async def test_a_new_folder_that_is_left_keeps_its_files_out_until_it_is_taken(tmp_path: Path) -> None:
    async with sent(tmp_path, call("write_file", path="shop/tax.py", content="x\n")) as scene:
        agents, folder = engine_of(scene.app).scheduler, scene.bench.workspace / "shop"
        run = agents.run("agent-1")
        plan = await agents.copies.plan_merge("agent-1")
        rows = PlanRows(plan.items, {"shop": "mine", "shop/tax.py": "checkpoint"}, MERGE)
        assert [rows.omitted_folder(item) for item in plan.items] == ["", "shop"]
        await agents.copies.merge(run, plan, rows.choices)
        assert not folder.exists()
        rows.choices["shop"] = "checkpoint"
        assert [rows.omitted_folder(item) for item in plan.items] == ["", ""]
        await agents.copies.merge(run, await agents.copies.plan_merge("agent-1"), rows.choices)
        assert (folder / "tax.py").read_text() == "x\n"


@pytest.mark.thorough
async def test_a_copy_is_discarded_after_a_question(tmp_path: Path) -> None:
    async with sent(tmp_path, *CHANGES) as scene:
        scene.app.run_worker(scene.app.actions.run_slash("/agents merge agent-1"))
        await scene.until(screen(scene, MergeScreen))
        await scene.pilot.press("d")
        await scene.until(screen(scene, ConfirmDialog))
        await scene.until(lambda: getattr(scene.app.screen, "armed", False))
        await scene.pilot.press("escape")
        await scene.until(lambda: not isinstance(scene.app.screen, ConfirmDialog))
        assert len(copies(tmp_path)) == 1
        scene.app.run_worker(scene.app.actions.run_slash("/agents merge 1"))
        await scene.until(screen(scene, MergeScreen))
        await scene.pilot.press("d")
        await scene.until(lambda: getattr(scene.app.screen, "armed", False))
        await scene.pilot.press("1")
        await scene.until(lambda: told(scene))
        assert told(scene)[-1] == "The copy of agent-1 is gone, with 2 changes."
        assert copies(tmp_path) == []


@pytest.mark.thorough
async def test_hunks_that_are_left_stay_in_the_copy(tmp_path: Path) -> None:
    lines = [f"{number}\n" for number in range(40)]
    changed = ["three\n" if line == "3\n" else "last\n" if line == "39\n" else line for line in lines]
    tool = call("write_file", path="a.txt", content="".join(changed))
    async with sent(tmp_path, tool, text="".join(lines)) as scene:
        engine = engine_of(scene.app)
        agents, file = engine.scheduler, scene.bench.workspace / "a.txt"
        plan = await agents.copies.plan_merge("agent-1")
        parted = await engine.history.split_hunks(plan.items[0])
        await agents.copies.merge(agents.run("agent-1"), plan, {"a.txt": parted.part(frozenset({1}))})
        assert ("three" in file.read_text(), "last" in file.read_text()) == (True, False)
        assert agents.copies.holds("agent-1")
        rest = await agents.copies.plan_merge("agent-1")
        assert [item.state for item in rest.items] == ["conflict"]
        await agents.copies.merge(agents.run("agent-1"), rest, {"a.txt": "merge"})
        assert file.read_text() == "".join(changed)
        assert not agents.copies.holds("agent-1")


@pytest.mark.thorough
async def test_all_copies_are_looked_at_until_the_person_has_seen_enough(tmp_path: Path) -> None:
    async with sent(tmp_path, *CHANGES) as scene:
        scene.app.run_worker(scene.app.actions.run_slash("/agents merge all"))
        await scene.until(screen(scene, MergeScreen))
        await scene.pilot.press("escape")
        await scene.until(screen(scene, type(scene.app.session)))
        assert (len(copies(tmp_path)), told(scene)) == (1, [])
        scene.app.run_worker(scene.app.actions.run_slash("/agents merge all"))
        await scene.until(screen(scene, MergeScreen))
        await scene.pilot.press("a")
        await scene.until(lambda: told(scene))
        assert told(scene)[-1] == "agent-1: 2 paths merged. alt+u undoes it."
        assert copies(tmp_path) == []
        with pytest.raises(HermesError, match="No copy waits to be merged"):
            await merge_copy(scene.app, "all")


@pytest.mark.thorough
async def test_merges_between_which_something_was_said_are_undone_one_by_one(tmp_path: Path) -> None:
    async with sent(tmp_path, *CHANGES) as scene:
        engine = engine_of(scene.app)
        travel, agents = engine.history, engine.scheduler
        run, file = agents.run("agent-1"), scene.bench.workspace / "new.txt"

        async def merge(paths: list[str], onto: Operation | None) -> Operation | None:
            plan = await agents.copies.plan_merge("agent-1", paths)
            await travel.bring_in(lambda: agents.copies.merge(run, plan), f"merge of {paths}", "", onto=onto)
            return await travel.undoable()

        first = await merge(["a.txt"], None)
        await engine.session.add("notice", "Something happens.", {"kind": "plain", "to_model": False})
        second = await merge(["new.txt"], first)
        assert first is not None and second is not None and second.number == first.number + 1
        await travel.undo()
        assert not file.exists() and (scene.bench.workspace / "a.txt").read_text() == "one\n2\n"
