"""The top line."""

from __future__ import annotations

import pytest
from rich.text import Text

from tests.widgets.panes.host import STATUS, Host, lines
from themes.skin import Skin
from widgets.palette import Palette
from widgets.panes.status import StatusBar, StatusFigures, StatusPart, pace, place

EVERYTHING = STATUS._replace(
    busy_since=58.0, questions=2, unsandboxed=True, approvals="all", trouble="offline", budget_reached=True
)


async def line_of(status: StatusFigures, width: int) -> str:
    app = Host(filled=False)
    async with app.run_test(size=(width, 24)) as pilot:
        app.status.show(status)
        await pilot.pause()
        return lines(app.status)[0]


async def test_a_wide_screen_shows_everything_in_its_place() -> None:
    line = await line_of(STATUS, 120)
    assert line.startswith(" hermes  fix-rounding · payments-api · main ")
    assert line.endswith("qwen3-coder  ▕██████░░░░▏ 61%  $0.42  cache 97%")
    assert len(line) == 119


async def test_a_chosen_effort_stands_with_the_model() -> None:
    line = await line_of(STATUS._replace(effort="12,000 tokens"), 120)
    assert "qwen3-coder effort 12,000 tokens  ▕██████░░░░▏ 61%" in line


async def test_work_shows_a_verb_and_its_time_without_motion_too() -> None:
    assert "▶ Thinking 0:42" in await line_of(STATUS._replace(busy_since=58.0), 120)


async def test_a_call_that_runs_for_a_second_is_named_with_its_own_time() -> None:
    calling = STATUS._replace(busy_since=58.0, activity="Running cargo test", activity_since=88.0)
    assert "▶ Running cargo test · 12 s" in await line_of(calling, 120)
    assert "▶ Thinking 0:42" in await line_of(calling._replace(activity_since=99.5), 120)
    assert "· 1:40  " in await line_of(calling._replace(activity_since=0.0, busy_since=0.0), 160)


async def test_the_spinner_turns_with_the_clock() -> None:
    app = Host(filled=False)
    app.status.motion = True
    async with app.run_test(size=(120, 24)) as pilot:
        app.status.use(Palette(Skin(spinner=("a", "b"), verbs=("Pondering", "Weighing"))))
        app.status.show(STATUS._replace(busy_since=app.seconds))
        await pilot.pause()
        first = lines(app.status)[0]
        app.seconds += 0.11
        second = lines(app.status)[0]
        assert "a Pondering 0:00" in first and "b Pondering 0:00" in second
        app.status.show(STATUS)
        app.status.show(STATUS._replace(busy_since=app.seconds))
        assert "Weighing" in lines(app.status)[0]


@pytest.mark.thorough
async def test_parts_go_by_weight_and_questions_never() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(200, 24)) as pilot:
        app.status.show(EVERYTHING)
        for width in range(8, 200, 6):
            app.status.styles.width = width
            await pilot.pause()
            line = lines(app.status)[0]
            assert len(line) <= width
            assert "◆ 2" in line
            for lighter, heavier in (
                ("cache", "payments-api"),
                ("hermes", "$0.42"),
                ("fix-ro", "qwen3-coder"),
            ):
                assert heavier in line or lighter not in line
        assert "cache" in line


async def test_a_long_title_shrinks_before_anything_goes() -> None:
    line = await line_of(STATUS._replace(title="a very long title " * 4), 120)
    assert "cache 97%" in line and "…" in line and "payments-api" in line


@pytest.mark.thorough
async def test_unknown_is_told_as_unknown() -> None:
    line = await line_of(StatusFigures(model="local"), 120)
    assert line.endswith("local  context –  $–")
    assert "0" not in line and "cache" not in line
    assert await line_of(StatusFigures(), 120) == " hermes"
    assert "12k tokens" in await line_of(StatusFigures(model="local", context_used=12_000), 120)


async def test_every_alarm_has_words() -> None:
    line = await line_of(EVERYTHING._replace(title="", folder="", detached=True, branch="1a2b3c"), 160)
    for words in ("✗ offline", "■ budget reached", "unsandboxed", "approvals all", "detached 1a2b3c", "◆ 2"):
        assert words in line


async def test_outside_text_is_cleaned() -> None:
    line = await line_of(StatusFigures(title="a\x1b]0;x\x07b\n[red]c", branch="m\x9b1m", model="q\x00w"), 120)
    assert "[red]c" in line
    assert not [character for character in line if ord(character) < 32 or 127 <= ord(character) < 160]


async def test_a_click_on_the_badge_asks_for_the_questions() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 24)) as pilot:
        app.status.show(EVERYTHING)
        await pilot.pause()
        x = lines(app.status)[0].index("◆")
        await pilot.click(app.status, offset=(x - 2, 0))
        assert app.seen == []
        await pilot.click(app.status, offset=(x, 0))
        await pilot.pause()
        assert [m.part for m in app.seen if isinstance(m, StatusBar.Chosen)] == ["questions"]


async def test_a_question_says_that_it_waits_for_the_person_and_nothing_turns() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 24)) as pilot:
        app.status.show(EVERYTHING._replace(busy_since=0.0, questions=0))
        assert "Waits for you" not in lines(app.status)[0]
        app.status.show(EVERYTHING._replace(busy_since=0.0, questions=1))
        shown = lines(app.status)[0]
        assert "Waits for you" in shown
        await pilot.click(app.status, offset=(shown.index("Waits"), 0))
        await pilot.pause()
        assert [m.part for m in app.seen if isinstance(m, StatusBar.Chosen)] == ["questions"]


def test_a_question_slows_the_clock_of_the_line() -> None:
    assert pace(StatusFigures()) is None and pace(StatusFigures(questions=1)) is None
    turning, waiting = pace(StatusFigures(busy_since=0.0)), pace(StatusFigures(busy_since=0.0, questions=1))
    assert turning is not None and waiting is not None and waiting >= 1.0 > turning


def test_parts_never_overlap() -> None:
    left = [StatusPart("name", Text("hermes")), StatusPart("title", Text("t" * 50))]
    right = [StatusPart("model", Text("m" * 20)), StatusPart("cost", Text("$1"))]
    for width in range(100):
        end = 0
        for part, start in place(left, right, width):
            assert start >= end
            end = start + part.text.cell_len
        assert end <= max(width, 0) or width < 24


async def test_the_clock_is_painted_rarely_once_a_question_is_open_for_a_minute() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 24)) as pilot:
        app.status.show(STATUS._replace(busy_since=app.seconds, questions=1))
        await pilot.pause()
        painted = []
        app.status._paint = lambda: painted.append(app.seconds)  # type: ignore[method-assign]
        for _ in range(180):
            app.seconds += 1
            app.status._tick()
        assert len([each for each in painted if each <= app.seconds - 120]) == 60
        assert 3 <= len([each for each in painted if each > app.seconds - 120]) <= 5
