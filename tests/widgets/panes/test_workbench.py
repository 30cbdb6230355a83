"""The workbench as a person moves in it."""

from __future__ import annotations

import pytest
from rich.style import Style

from tests.widgets.panes.host import PAPER, Host, lines
from tools.results import Display
from widgets.panes.pane import BarPart, PaneBar, Summary
from widgets.panes.workbench import Workbench


async def test_wide_screens_have_the_panes_beside_the_conversation() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        panes = [pane for pane in app.bench.panes if pane.display]
        assert [pane.label for pane in panes] == ["todo", "agents", "files", "log"]
        assert {pane.size.width for pane in panes} == {40}
        assert not app.bench.bar.display
        ends = [pane.region.bottom for pane in panes]
        starts = [pane.region.y for pane in panes]
        assert [start - end for end, start in zip(ends, starts[1:], strict=False)] == [1, 1, 1]
        assert ends[-1] == app.prompt.region.y - 1


async def test_the_rules_meet() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        top, bottom = app.bench.query("RegionRule").first(), app.bench.query("RegionRule").last()
        divider = app.bench.query_one("Divider")
        assert lines(top)[0].index("┬") == divider.region.x == lines(bottom)[0].index("┴")
        joints = [y for y, text in enumerate(lines(divider)) if text == "├"]
        first = divider.region.y
        assert joints == [pane.region.y - 1 - first for pane in app.bench.panes[1:]]


@pytest.mark.thorough
async def test_what_is_veiled_has_its_column_but_no_panes_until_they_are_to_be_seen() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        heights = [pane.region.height for pane in app.bench.panes]
        main, divider = app.main.region, app.bench.query_one("Divider")
        app.bench.set_hidden(True)
        await pilot.pause(0.1)
        assert not any(pane.region.area for pane in app.bench.panes)
        assert app.bench.query_one("#workbench-side").region.width == 40
        assert app.main.region == main and set(lines(divider)) == {"│"}
        app.bench.set_hidden(False)
        await pilot.pause(0.1)
        assert [pane.region.height for pane in app.bench.panes] == heights


async def test_narrow_screens_have_one_line_instead() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.1)
        assert not any(pane.region.area for pane in app.bench.panes)
        line = lines(app.bench.bar)[0]
        assert line.startswith(" TODO 2/5 ▶ Use Decimal")
        assert "…  AGENTS 2 ◆1  FILES 2  LOG 6" in line
        assert app.main.region.width == 80


async def test_very_narrow_screens_have_only_the_conversation() -> None:
    app = Host()
    async with app.run_test(size=(50, 20)) as pilot:
        await pilot.pause(0.1)
        assert not app.bench.bar.display
        assert app.main.region.size == (50, 16)


@pytest.mark.thorough
async def test_a_chosen_pane_lies_over_the_conversation_until_esc() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.1)
        main = app.main.region
        x = lines(app.bench.bar)[0].index("LOG")
        await pilot.click(app.bench.bar, offset=(x, 0))
        await pilot.pause(0.1)
        assert app.focused is app.calls
        assert app.calls.region.width == 80
        assert "esc back" in lines(app.calls)[0]
        await pilot.press("slash", "x", "escape")
        assert app.bench.opened is app.calls
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert app.bench.opened is None and not app.calls.region.area
        assert app.main.region == main


async def test_the_bar_works_by_keys() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bench.bar.focus()
        await pilot.press("right", "enter")
        await pilot.pause(0.1)
        assert app.focused is app.agents
        await pilot.press("escape")
        await pilot.pause()
        assert app.focused is app.bench.bar


async def test_widening_the_screen_puts_an_open_pane_back_in_its_place() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bench.open("todo")
        await pilot.pause(0.1)
        await pilot.resize_terminal(120, 40)
        await pilot.pause(0.1)
        assert app.bench.opened is None
        assert app.calls.display and app.todo.region.width == 40


@pytest.mark.thorough
async def test_jump_mode_leads_to_every_pane_and_the_prompt() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        places = []
        for key in "taflcp":
            await pilot.press("alt+j")
            await pilot.pause()
            assert lines(app.calls)[0].startswith("  l  LOG")
            await pilot.press(key)
            await pilot.pause(0.05)
            places.append(app.focused)
            assert lines(app.calls)[0].startswith(" LOG")
        assert places == [
            app.todo, app.agents, app.files, app.calls, app.main, app.prompt,
        ]  # fmt: skip


@pytest.mark.thorough
async def test_another_key_ends_jump_mode_where_one_was() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        app.files.focus()
        for key in ("escape", "z"):
            await pilot.press("alt+j", key)
            await pilot.pause()
            assert app.focused is app.files
            assert not app.bench.can_focus
        assert "prompt" not in lines(app.bench.query("RegionRule").last())[0]


async def test_jump_mode_opens_panes_on_narrow_screens() -> None:
    app = Host(PAPER)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.1)
        await pilot.press("alt+j")
        await pilot.pause()
        assert " l  LOG 6" in lines(app.bench.bar)[0]
        assert "conversation  prompt" in lines(app.bench.query("RegionRule").last())[0]
        await pilot.press("l")
        await pilot.pause(0.1)
        assert app.focused is app.calls
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert app.focused is app.prompt


@pytest.mark.thorough
async def test_space_and_a_click_on_the_title_fold_a_pane() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        app.todo.focus()
        await pilot.press("space")
        await pilot.pause(0.1)
        assert app.todo.size.height == 1
        assert lines(app.todo)[0].startswith(" ▸ TODO") and lines(app.todo)[0].endswith("2/5")
        await pilot.click(app.todo, offset=(5, 0))
        await pilot.pause(0.1)
        assert app.todo.size.height == 8
        folded = [m.state["folded"] for m in app.seen if isinstance(m, Workbench.StateChanged)]
        assert folded == [["todo"], []]


@pytest.mark.thorough
async def test_the_rule_moves_by_mouse_and_keys_and_stays_in_bounds() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        divider = app.bench.query_one("Divider")
        await pilot.mouse_down(divider, offset=(0, 5))
        await pilot.hover(offset=(69, 10))
        await pilot.mouse_up(offset=(69, 10))
        await pilot.pause(0.1)
        assert app.calls.region.width == 50
        assert app.bench.state()["width"] == 50
        app.calls.focus()
        for _ in range(9):
            app.simulate_key("less_than_sign")
        await pilot.press("less_than_sign")
        await pilot.pause(0.1)
        assert app.calls.region.width == 59
        for _ in range(29):
            app.simulate_key("greater_than_sign")
        await pilot.press("greater_than_sign")
        await pilot.pause(0.1)
        assert app.calls.region.width == 24


async def test_the_arrangement_is_remembered_and_junk_is_passed_over() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        app.bench.restore({"width": 44, "folded": ["log", "gone"]})
        await pilot.pause(0.1)
        assert app.bench.state() == {"width": 44, "folded": ["log"]}
        assert app.calls.size == (44, 1)
        for junk in ({}, {"width": "wide", "folded": 3}, {"width": True}, {"width": -4, "folded": None}):
            app.bench.restore(junk)
        assert app.bench.state() == {"width": 44, "folded": ["log"]}
        app.bench.restore({"width": 10**9})
        await pilot.pause(0.1)
        assert app.calls.region.width == 59


@pytest.mark.thorough
async def test_a_busy_log_lays_nothing_out_anew() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        layouts: list[object] = []
        app.screen.screen_layout_refresh_signal.subscribe(app, layouts.append)
        for number in range(50):
            app.calls.start(f"n{number}", "read", Display("read", f"file {number}"))
            await pilot.pause()
        assert "file 49" in lines(app.calls)[-1]
        assert layouts == []
        app.todo.action_fold()
        await pilot.pause(0.1)
        assert layouts != []


async def test_the_bar_leaves_out_what_does_not_fit() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(60, 20)) as pilot:
        bar = app.bench.bar
        bar.show([BarPart(str(i), Summary(f"PANE{i}", str(i), "a long note about it", i)) for i in range(9)])
        await pilot.pause()
        line = lines(bar)[0]
        assert "PANE0" in line and "PANE8" not in line
        assert "◆1" in line
        assert len(line) <= 60


async def test_a_focused_part_of_the_bar_is_marked_without_colour_too() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        app.bench.bar.focus()
        await pilot.pause()
        styles = {s.text: s.style for s in app.bench.bar.render_line(0) if isinstance(s.style, Style)}
        assert styles["TODO"].reverse and not styles["AGENTS"].reverse
        assert isinstance(app.bench.bar, PaneBar)
