"""Undo, redo and rewind in the application, with a real engine and real files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from textual.widget import Widget

from agent.events import BranchSwitched, StepTaken
from app.tui.conversation import session_screen
from app.tui.conversation.session_host import SessionRequest
from app.tui.conversation.session_screen import DoublePress
from app.tui.screens import dialog as dialogs
from app.tui.screens.history.restoring import HunkScreen, RestoringScreen, RewindScreen, SaidRows
from app.tui.screens.history.timeline_files import TimelinePick
from tests.agent.session.history.test_navigation import Engineer
from tests.app.tui.test_application import Stage, stage
from tests.support.replies import call, say
from tests.support.sessions import engine_of
from widgets.timeline.diff_rows import HunkRows
from widgets.transcript.parts import CallItem, NoticeItem, UserItem


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.02)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


@asynccontextmanager
async def worked(
    folder: Path, *texts: str, size: tuple[int, int] = (100, 30), script: Any = None
) -> AsyncIterator[Stage]:
    """The application after it has worked on these messages."""
    async with stage(folder, script or Engineer(), size=size) as scene:
        for turn, text in enumerate(texts, 1):
            scene.app.message_sender.send(text)
            await scene.quiet(turn)
        yield scene


def files(scene: Stage) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(scene.bench.workspace.iterdir()):
        with suppress(FileNotFoundError):  # one that was on its way to its place
            found[path.name] = path.read_text()
    return found


def said(scene: Stage) -> list[str]:
    return [item.text for item in scene.items(UserItem)]


def notices(scene: Stage) -> list[str]:
    """What the program has said, but not what it noticed of the person's own work."""
    return [item.text for item in scene.items(NoticeItem) if item.kind != "files"]


def history_actions(scene: Stage) -> list[str]:
    """The words of journeys that are over; notices tell of what the person changed as well."""
    return [text for text in notices(scene) if text.endswith(("undoes it.", "does it again."))]


def drawn(widget: Widget) -> str:
    return "\n".join(widget.render_line(y).text for y in range(widget.size.height))


def screen(scene: Stage, kind: type) -> Callable[[], bool]:
    return lambda: isinstance(scene.app.screen, kind)


@pytest.mark.thorough
async def test_undo_takes_back_the_turn_and_its_files_and_redo_brings_both_again(tmp_path: Path) -> None:
    async with worked(tmp_path, "write a one", "write b two?") as scene:
        await scene.pilot.press("alt+u")
        await scene.until(lambda: history_actions(scene))
        assert (files(scene), said(scene)) == ({"a": "one"}, ["write a one"])
        assert scene.app.session.prompt.text == "write b two?"
        (notice,) = history_actions(scene)
        assert "Undone: write b two? 1 path removed." in notice and "alt+y" in notice
        await scene.pilot.press("alt+y")
        await scene.until(lambda: len(said(scene)) == 2)
        assert files(scene) == {"a": "one", "b": "two?"}
        await scene.until(lambda: any("Redone" in text for text in notices(scene)))
        assert scene.app.session.prompt.text == ""


@pytest.mark.thorough
async def test_what_is_being_written_stays_and_the_message_goes_into_the_history(tmp_path: Path) -> None:
    async with worked(tmp_path, "write a one") as scene:
        await scene.type("my draft", "alt+u")
        await scene.until(lambda: history_actions(scene))
        prompt = scene.app.session.prompt
        await scene.until(lambda: "write a one" in prompt.history.entries[-1:])
        assert prompt.text == "my draft"


@pytest.mark.thorough
async def test_a_draft_that_was_put_back_makes_room_for_the_next(tmp_path: Path) -> None:
    async with worked(tmp_path, "write a one", "write b two") as scene:
        prompt = scene.app.session.prompt
        await scene.pilot.press("alt+u")
        await scene.until(lambda: prompt.text == "write b two")
        await scene.pilot.press("alt+u")
        await scene.until(lambda: prompt.text == "write a one")
        assert files(scene) == {}
        await scene.pilot.press("alt+u")
        await scene.pilot.pause(0.1)
        assert prompt.text == "write a one"


@pytest.mark.thorough
async def test_a_session_that_is_continued_lists_the_files_it_changed(tmp_path: Path) -> None:
    async with worked(tmp_path, "write a one", "run echo x >b") as scene:
        app = scene.app
        session = app.host.session
        await app.open_session(SessionRequest(fresh=True))
        assert not app.session.files.changes
        (scene.bench.workspace / "c").write_text("mine")
        await app.open_session(SessionRequest(resume=session))
        pane = app.session.files
        await scene.until(
            lambda: (
                [(each.path, each.outside) for each in pane.changes]
                == [("c", True), ("a", False), ("b", False)]
            )
        )


@pytest.mark.thorough
async def test_panes_and_status_bar_follow_the_branch(tmp_path: Path) -> None:
    async with worked(tmp_path, "write a one", "run echo x >b") as scene:
        app = scene.app
        await scene.until(lambda: len(app.session.files.changes) == 2)
        node = next(item.node for item in scene.items(UserItem) if item.text == "run echo x >b")
        app.run_worker(engine_of(app).history.rewind(node))
        await scene.until(lambda: [change.path for change in app.session.files.changes] == ["a"])
        await scene.until(lambda: app.bridge.state.head == "main-2", "the branch in the status bar")
        assert "↳ main-2" in app.session.status.render_line(0).text
        app.run_worker(engine_of(app).history.switch("main"))
        await scene.until(lambda: [change.path for change in app.session.files.changes] == ["a", "b"])
        await scene.until(lambda: app.bridge.state.head == "", "the branch in the status bar")


async def test_the_list_of_files_shows_what_is_left_of_their_changes(tmp_path: Path) -> None:
    async with worked(
        tmp_path, "run printf '1\\n2\\n' >a; touch b", "run printf '1\\n3\\n' >a; rm b"
    ) as scene:
        pane, history = scene.app.session.files, engine_of(scene.app).history
        await scene.until(
            lambda: [(each.path, each.added, each.removed) for each in pane.changes] == [("a", 2, 0)]
        )
        assert "+3" in pane.changes[0].diff
        scene.app.run_worker(history.restore(await history.plan(0), {}))
        await scene.until(lambda: not pane.changes, "no row, as no file differs any more")


@pytest.mark.thorough
async def test_ignored_files_are_listed_when_they_are_asked_for(tmp_path: Path) -> None:
    async with worked(
        tmp_path, "run echo made >.gitignore; mkdir made; echo x >made/b; echo y >a", "run true"
    ) as scene:
        pane = scene.app.session.files
        await scene.until(lambda: {change.path for change in pane.changes} == {".gitignore", "a"})
        pane.focus()
        await scene.pilot.press("full_stop")
        await scene.until(lambda: pane.figure() == "2 + 1 ignored")
        rows = [pane.render_line(y).text for y in range(pane.size.height)]
        assert any("made/b" in row for row in rows)
        assert {change.path for change in pane.changes} == {".gitignore", "a"}
        await scene.pilot.press("full_stop")
        await scene.until(lambda: pane.figure() == "2")
        pane.clear()
        await scene.pilot.press("alt+u")
        await scene.until(lambda: scene.bench.seen(BranchSwitched))
        await scene.until(lambda: {change.path for change in pane.changes} == {".gitignore", "a"})


@pytest.mark.thorough
async def test_a_card_tells_how_many_files_its_call_changed_and_does_so_again_later(tmp_path: Path) -> None:
    async with worked(tmp_path, "run touch a b c", "run true") as scene:
        assert [item.files for item in scene.items(CallItem)] == [3, 0]
        shown = "\n".join(scene.app.session.transcript.render_line(y).text for y in range(20))
        assert "↺ 3 files" in shown
        await scene.pilot.press("alt+u")
        await scene.until(lambda: scene.bench.seen(BranchSwitched))
        assert [item.files for item in scene.items(CallItem)] == [3]


@pytest.mark.thorough
async def test_esc_twice_at_an_empty_prompt_lists_what_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_screen, "ESCAPES", 60.0)
    async with worked(tmp_path, "write a one", "write b two") as scene:
        await scene.pilot.press("escape")
        await scene.pilot.pause(0.05)
        assert scene.app.screen is scene.app.session
        await scene.pilot.press("escape")
        await scene.until(screen(scene, RewindScreen))
        rows = scene.app.screen.query_one("SaidRows")
        await scene.until(lambda: "± 1 file +1" in rows.render_line(0).text)
        assert "write b two" in rows.render_line(0).text
        await scene.until(lambda: "± 2 files +2" in rows.render_line(1).text)
        await scene.pilot.press("escape")
        await scene.until(lambda: scene.app.screen is scene.app.session)
        assert len(said(scene)) == 2


@pytest.mark.thorough
async def test_esc_twice_does_nothing_with_a_draft_or_when_it_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_screen, "ESCAPES", 0.1)
    async with worked(tmp_path, "write a one") as scene:
        await scene.type("x", "escape", "escape")
        await scene.pilot.pause(0.1)
        assert scene.app.screen is scene.app.session
        await scene.pilot.press("ctrl+u", "escape")
        await scene.pilot.pause(0.2)
        await scene.pilot.press("escape")
        await scene.pilot.pause(0.1)
        assert scene.app.screen is scene.app.session


@pytest.mark.thorough
async def test_esc_that_stops_a_turn_leads_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_screen, "STOPPING", 60.0)
    async with worked(tmp_path) as scene:
        scene.app.message_sender.send("run sleep 30")
        await scene.until(lambda: scene.app.session.prompt.busy)
        await scene.pilot.press("escape")
        await scene.quiet()
        await scene.pilot.press("escape", "escape", "escape")
        await scene.pilot.pause(0.1)
        assert scene.app.screen is scene.app.session


@pytest.mark.thorough
async def test_esc_in_a_dialog_is_its_own(tmp_path: Path) -> None:
    script = [call("clarify", question="Which?", choices=["red", "blue"]), say("Fine.")]
    async with worked(tmp_path, script=script) as scene:
        scene.app.message_sender.send("pick")
        await scene.until(lambda: getattr(scene.app.screen, "armed", False))
        await scene.pilot.press("escape")
        await scene.quiet()
        await scene.pilot.press("escape")
        await scene.pilot.pause(0.1)
        assert scene.app.screen is scene.app.session


def test_the_second_press_is_told_from_the_first() -> None:
    now = [0.0]
    key = DoublePress(0.6, lambda: now[0])
    assert [key.press(), key.press(), key.press()] == [False, True, False]
    now[0] = 0.7
    assert not key.press()
    key.hold(1.0)
    now[0] = 1.6
    assert not key.press()
    now[0] = 1.8
    assert [key.press(), key.press()] == [False, True]


async def choose(scene: Stage, *keys: str) -> None:
    """Go back to before the second to last message, and answer what is asked."""
    await scene.type("/rewind", "enter")
    await scene.until(screen(scene, RewindScreen))
    await scene.until(lambda: scene.app.screen.query_one(SaidRows).count)
    await scene.pilot.press("j", "enter")
    await scene.until(screen(scene, TimelinePick))
    await scene.until(lambda: getattr(scene.app.screen, "armed", False))
    await scene.pilot.press(*keys)


WORK = ("write a one", "write a two", "write b x")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "left", "words"),
    [
        ("1", {"a": "one"}, ["write a one"]),
        ("2", {"a": "two", "b": "x"}, ["write a one"]),
        ("3", {"a": "one"}, list(WORK)),
    ],
)
async def test_going_back_takes_what_was_chosen(
    tmp_path: Path, key: str, left: dict[str, str], words: list[str]
) -> None:
    async with worked(tmp_path, *WORK) as scene:
        await choose(scene, key)
        await scene.until(lambda: any("undoes it" in text for text in notices(scene)))
        assert (files(scene), said(scene)) == (left, words)
        assert scene.app.session.prompt.text == ("" if key == "3" else "write a two")
        await scene.pilot.press("alt+u")
        await scene.until(lambda: files(scene) == {"a": "two", "b": "x"} and said(scene) == list(WORK))


@pytest.mark.thorough
async def test_leaving_everything_as_it_is_goes_back_to_the_list(tmp_path: Path) -> None:
    async with worked(tmp_path, *WORK) as scene:
        await choose(scene, "escape")
        await scene.until(screen(scene, RewindScreen))
        assert files(scene) == {"a": "two", "b": "x"}


async def conflict(scene: Stage, text: str = "mine") -> RestoringScreen:
    """The person changes a file, and then wants to go back."""
    (scene.bench.workspace / "a").write_text(text)
    await choose(scene, "1")
    await scene.until(screen(scene, RestoringScreen))
    shown = scene.app.screen
    assert isinstance(shown, RestoringScreen)
    await scene.until(lambda: "keep mine" in shown.rows.render_line(0).text)
    return shown


@pytest.mark.thorough
async def test_what_the_person_changed_is_shown_before_and_stays_by_default(tmp_path: Path) -> None:
    async with worked(tmp_path, *WORK) as scene:
        await conflict(scene)
        await scene.pilot.press("a")
        await scene.until(lambda: history_actions(scene))
        assert files(scene) == {"a": "mine"}
        assert "1 left as it is: a" in history_actions(scene)[0]


@pytest.mark.thorough
async def test_the_checkpoint_is_taken_where_it_was_chosen(tmp_path: Path) -> None:
    async with worked(tmp_path, *WORK) as scene:
        await conflict(scene)
        await scene.pilot.press("c", "a")
        await scene.until(lambda: history_actions(scene))
        assert files(scene) == {"a": "one"}


@pytest.mark.thorough
async def test_both_sides_are_merged_and_shown_before(tmp_path: Path) -> None:
    lines = "".join(f"line {n}\n" for n in range(9))
    ours, theirs = lines.replace("line 1\n", "ours\n"), lines.replace("line 7\n", "theirs\n")
    script = [
        call("write_file", path="a", content=lines),
        say("ok"),
        call("write_file", path="a", content=ours),
        say("ok"),
        say("ok"),
    ]
    async with worked(tmp_path, "one", "two", "three", script=script) as scene:
        (scene.bench.workspace / "a").write_text(ours.replace("line 7\n", "theirs\n"))
        await choose(scene, "1")
        await scene.until(screen(scene, RestoringScreen))
        await scene.pilot.press("b")
        shown = scene.app.screen
        assert isinstance(shown, RestoringScreen)
        await scene.until(lambda: "merge · no overlap" in shown.rows.render_line(0).text)
        diff = shown.query_one("DiffRows")
        await scene.until(lambda: "ours" in drawn(diff))
        await scene.pilot.press("a")
        await scene.until(lambda: history_actions(scene))
        assert files(scene) == {"a": theirs}


@pytest.mark.thorough
async def test_declining_the_look_changes_nothing(tmp_path: Path) -> None:
    async with worked(tmp_path, *WORK) as scene:
        await conflict(scene)
        await scene.pilot.press("escape")
        await scene.until(lambda: scene.app.screen is scene.app.session)
        assert (files(scene), said(scene)) == ({"a": "mine", "b": "x"}, list(WORK))


@pytest.mark.thorough
async def test_files_that_change_during_the_look_are_looked_at_again(tmp_path: Path) -> None:
    async with worked(tmp_path, *WORK) as scene:
        first = await conflict(scene)
        await scene.pilot.press("c")
        (scene.bench.workspace / "a").write_text("newer")
        await scene.pilot.press("a")
        await scene.until(lambda: scene.app.screen is not first and screen(scene, RestoringScreen)())
        again = scene.app.screen
        assert isinstance(again, RestoringScreen) and again.choices == {"a": "mine"}
        await scene.pilot.press("a")
        await scene.until(lambda: history_actions(scene))
        assert files(scene) == {"a": "newer"}


LONG = "".join(f"line {number}\n" for number in range(30))
EDITED = LONG.replace("line 2\n", "two\n").replace("line 15\n", "").replace("line 28\n", "line 28\nmore\n")


@pytest.mark.thorough
async def test_a_person_takes_some_hunks_of_a_file_and_leaves_the_others(tmp_path: Path) -> None:
    script = [
        call("write_file", path="a", content=LONG),
        say("ok"),
        call("write_file", path="a", content=EDITED),
        say("ok"),
        call("write_file", path="b", content="x"),
        say("ok"),
    ]
    async with worked(tmp_path, "one", "two", "three", script=script) as scene:
        # Only two files would change; the look at them was asked for.
        await choose(scene, "4")
        await scene.until(screen(scene, RestoringScreen))
        shown = scene.app.screen
        assert isinstance(shown, RestoringScreen)
        await scene.pilot.press("enter")
        await scene.until(screen(scene, HunkScreen))
        rows = scene.app.screen.query_one(HunkRows)
        await scene.until(lambda: rows.numbers == [1, 2, 3])
        await scene.pilot.press("right_square_bracket", "j", "j", "space", "escape")
        await scene.until(lambda: scene.app.screen is shown)
        await scene.until(lambda: "2 of 3 hunks" in shown.rows.render_line(0).text)
        await scene.pilot.press("j", "m", "a")
        await scene.until(lambda: history_actions(scene))
        assert files(scene) == {"a": LONG.replace("line 15\n", ""), "b": "x"}
        assert said(scene) == ["one", "two", "three"]
        await scene.pilot.press("alt+u")
        await scene.until(lambda: files(scene) == {"a": EDITED, "b": "x"})


@pytest.mark.thorough
async def test_hunks_that_were_chosen_are_asked_for_again_when_the_file_changes(tmp_path: Path) -> None:
    script = [
        call("write_file", path="a", content=LONG),
        say("ok"),
        call("write_file", path="a", content=EDITED),
        say("ok"),
        say("ok"),
    ]
    async with worked(tmp_path, "one", "two", "three", script=script) as scene:
        await choose(scene, "4")
        await scene.until(screen(scene, RestoringScreen))
        first = scene.app.screen
        await scene.pilot.press("enter")
        await scene.until(screen(scene, HunkScreen))
        hunks = scene.app.screen.query_one(HunkRows)
        await scene.until(lambda: hunks.numbers == [1, 2, 3])
        await scene.pilot.press("space", "escape")
        await scene.until(lambda: scene.app.screen is first)
        theirs = f"mine\n{EDITED}"
        (scene.bench.workspace / "a").write_text(theirs)
        await scene.pilot.press("a")
        await scene.until(lambda: scene.app.screen is not first and screen(scene, RestoringScreen)())
        again = scene.app.screen
        assert isinstance(again, RestoringScreen) and again.choices == {"a": "mine"}
        await scene.pilot.press("a")
        await scene.until(lambda: history_actions(scene))
        assert files(scene) == {"a": theirs}


@pytest.mark.thorough
async def test_a_branch_carries_over_what_was_done_on_the_one_that_is_left(tmp_path: Path) -> None:
    async with worked(tmp_path, "write a one", "write b two") as scene:
        node = next(item.node for item in scene.items(UserItem) if item.text == "write a one")
        assert node is not None
        told: list[str] = []

        async def begin() -> None:
            told.append(await scene.app.history_actions.fork(node, "again", carry_over=True))
            told.append(
                await scene.app.history_actions.fork(await scene.app.history_actions.end(), carry_over=True)
            )

        scene.app.run_worker(begin())
        await scene.until(lambda: len(told) == 2)
        assert told[0].startswith(
            "On branch again. The model is told what was done on the branch that is left."
        )
        assert "Nothing was done since" in told[1]
        scene.app.message_sender.send("hello")
        await scene.quiet(3)
        assert "asked: write b two" in str(scene.bench.server.requests[-1].messages)


@pytest.mark.thorough
async def test_undo_asks_as_well_when_files_were_changed_by_others(tmp_path: Path) -> None:
    async with worked(tmp_path, "write a one", "write a two") as scene:
        (scene.bench.workspace / "a").write_text("mine")
        await scene.pilot.press("alt+u")
        await scene.until(screen(scene, RestoringScreen))
        await scene.pilot.press("escape")
        await scene.until(lambda: scene.app.screen is scene.app.session)
        assert len(said(scene)) == 2
        await scene.pilot.press("alt+u")
        await scene.until(screen(scene, RestoringScreen))
        await scene.pilot.press("c", "a")
        await scene.until(lambda: files(scene) == {"a": "one"})


async def test_nothing_to_undo_is_a_sentence(tmp_path: Path) -> None:
    async with worked(tmp_path) as scene:
        told: list[str] = []
        scene.app.show_warning = told.append  # type: ignore[method-assign]
        await scene.pilot.press("alt+u")
        await scene.until(lambda: told)
        await scene.pilot.press("alt+y")
        await scene.until(lambda: len(told) == 2)
        assert told == ["There is nothing to undo.", "There is nothing to redo."]
        assert scene.bench.seen(StepTaken) == []
