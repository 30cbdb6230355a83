"""What each pane tells."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from textual.widget import Widget

from tests.widgets.panes.host import AGENTS, AT, Host, lines, shown
from tools.context import Todo
from tools.results import Display
from widgets.panes.agents import AgentRow, AgentsPane
from widgets.panes.files import KEPT, FilesPane, PaneFileChange
from widgets.panes.log import LogPane

EVIL = "a\x1b]52;c;AAAA\x07b\x9b31m [bold]c[/] \u202e\nd"


def visible(widget: Widget) -> str:
    text = shown(widget)
    assert not {c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160 or c == "\u202e")}
    return text


async def test_todos_wrap_in_their_column_and_count_what_is_done() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        rows = lines(app.todo)
        assert rows[0].startswith(" TODO") and rows[0].endswith("2/5")
        assert rows[1] == " ✓ Reproduce with a failing test"
        assert rows[3:5] == [" ▶ Use Decimal in money.round() and", "   keep its signature"]
        assert rows[5].startswith(" ○ ")
        assert rows[6] == " · Drop the shim"


async def test_a_long_list_shows_the_task_in_progress() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 24)) as pilot:
        done = tuple(Todo(str(i), f"task {i}", "completed") for i in range(40))
        app.todo.show((*done, Todo("x", "the one that counts", "in_progress")))
        await pilot.pause(0.1)
        assert " ▶ the one that counts" in lines(app.todo)


async def test_an_empty_pane_takes_no_room() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert not any(pane.display for pane in (app.todo, app.agents, app.files))


async def test_outside_text_reaches_no_terminal() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 40)) as pilot:
        app.todo.show((Todo("1", EVIL, "pending"),))
        app.agents.show([AgentRow(agent=EVIL, name=EVIL, state="running", action=EVIL)])
        app.files.record([PaneFileChange(EVIL, 1, 1, EVIL)])
        app.calls.start("1", EVIL, Display(EVIL, EVIL), agent=EVIL)
        app.calls.start("2", EVIL, Display("", EVIL, EVIL), parent="1")
        app.calls.progress("2", EVIL)
        await pilot.pause(0.1)
        for pane in app.bench.panes:
            assert "[bold]" in visible(pane)
            assert all(cell_len(line) <= 40 for line in lines(pane))


async def test_agents_show_figures_while_they_live_and_one_line_after() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        rows = lines(app.agents)
        assert rows[0].endswith("2 live")
        assert rows[1].startswith(" ▶ callers  Find every caller of")
        assert rows[2].startswith("   reading api/views.py") and rows[2].endswith("▂▃▃▃▃██▁")
        assert rows[3] == "   0:42 · 11 calls · 8.1k ▕██░░▏ $0.03"
        assert rows[4].startswith(" ◆ history  asks you") and rows[4].endswith("⏎")
        assert rows[5] == "   0:12 · 1 call · – · $–"
        assert rows[6] == " ✓ docs     done · 4 findings"


async def test_enter_opens_the_agent_under_the_cursor() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        app.agents.focus()
        await pilot.press("j", "enter")
        assert [m.agent for m in app.seen if isinstance(m, AgentsPane.Opened)] == ["a2"]


async def test_of_many_agents_that_ended_the_newest_are_in_sight() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 40)) as pilot:
        ended = [AgentRow(agent=f"e{at}", name=f"ended-{at}", state="done") for at in range(12)]
        for count in range(1, 13):
            app.agents.show(ended[:count])
        await pilot.pause(0.1)
        assert lines(app.agents)[0].endswith("6 more above  12")
        assert [line.split()[1] for line in lines(app.agents)[1:7]] == [f"ended-{at}" for at in range(6, 12)]
        live = AgentRow(agent="a", name="callers", state="running", action="reading")
        app.agents.show([*ended, live])
        await pilot.pause(0.1)
        assert any("callers" in line for line in lines(app.agents))
        app.agents.show([live, *ended])
        await pilot.pause(0.1)
        assert "callers" in lines(app.agents)[1] and "more below" in lines(app.agents)[0]


async def test_the_agents_pane_comes_and_goes_with_its_agents() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 40)) as pilot:
        app.agents.show(AGENTS)
        await pilot.pause(0.1)
        assert app.agents.display and app.agents.size.height == 7
        app.agents.show([])
        await pilot.pause(0.1)
        assert not app.agents.display


async def test_calls_of_a_script_stand_under_it_however_late_they_come() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        rows = [line for line in lines(app.calls)[1:] if line]
        assert [row[1] for row in rows] == ["✗", "✓", "▶", "✓", "▶", "⊘"]
        assert "├ search" in rows[3] and "├ read" in rows[4]
        app.calls.finish("3b", "done", 0.2, Display("read", "src/api/views.py", "12 lines"))
        app.calls.finish("3", "done", 4.0, Display("code", "sweep callers", "2 calls"))
        await pilot.pause(0.1)
        rows = [line for line in lines(app.calls)[1:] if line]
        assert "├ search" in rows[3] and "└ read" in rows[4]


@pytest.mark.thorough
async def test_s_shows_only_scripts_that_called_tools_and_all_again() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        app.calls.focus()
        await pilot.press("s")
        await pilot.pause(0.1)
        rows = lines(app.calls)
        assert rows[0].startswith(" SANDBOX LOG") and "s scripts" in rows[0]
        assert app.calls.count == 3
        assert "code" in rows[1] and "├ search" in rows[2] and "├ read" in rows[3]
        app.calls.start("5", "read_file", Display("read", "no script"))
        app.calls.start("6", "execute_code", Display("code", "another"))
        await pilot.pause(0.1)
        assert app.calls.count == 3
        app.calls.start("6a", "search", Display("search", "x"), parent="6")
        app.calls.start("3c", "search", Display("search", "late"), parent="3")
        await pilot.pause(0.1)
        assert [row[3:].split()[1] for row in lines(app.calls)[1:7]] == [
            "code", "search", "read", "search", "code", "search",
        ]  # fmt: skip
        await pilot.press("s", "s")
        await pilot.pause(0.1)
        assert app.calls.count == 10
        assert lines(app.calls)[0].startswith(" LOG") and "s all" in lines(app.calls)[0]


async def test_the_sandbox_log_of_a_session_without_scripts_teaches_the_way_back() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 40)) as pilot:
        app.calls.start("1", "read_file", Display("read", "x"))
        app.calls.focus()
        await pilot.press("s")
        await pilot.pause(0.1)
        assert app.calls.display and "s shows other calls." in shown(app.calls).replace("\n ", " ")


async def test_what_is_given_up_leaves_the_sandbox_log_too() -> None:
    app = Host(filled=False)
    app.calls = LogPane(kept=10, now=lambda: AT)
    app.bench.panes = ()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await app.mount(app.calls)
        app.calls.show_sandbox(True)
        app.calls.start("s", "execute_code", Display("code", "script"))
        for number in range(4):
            app.calls.start(f"s{number}", "read", Display("read", f"in {number}"), parent="s")
        for number in range(7):
            app.calls.start(str(number), "read", Display("read", f"out {number}"))
        assert app.calls.count == 3 and app.calls.lost == 2
        app.calls.show_sandbox(False)
        assert app.calls.count == 10


async def test_a_running_call_shows_its_last_line_and_its_time() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(160, 40)) as pilot:
        app.bench.restore({"width": 70})
        app.calls.start("1", "terminal", Display("terminal", "make"))
        app.calls.progress("1", "compiling a\ncompiling b\n")
        app.seconds += 75
        app.bench.use(app.look)
        await pilot.pause(0.1)
        row = lines(app.calls)[1]
        assert row.startswith(" ▶ 14:02:11 terminal make · compiling b") and row.endswith("1:15")


async def test_the_log_keeps_the_newest_rows_and_says_so() -> None:
    app = Host(filled=False)
    app.calls = LogPane(kept=100, now=lambda: AT)
    app.bench.panes = ()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await app.mount(app.calls)
        for number in range(250):
            app.calls.start(str(number), "read", Display("read", f"file {number}"))
            if number % 2:
                app.calls.finish(str(number), "done", 0.1, Display("read", f"file {number}"))
        await pilot.pause(0.1)
        assert app.calls.count == 100 and app.calls.lost == 150
        assert "newest 100 of 250" in lines(app.calls)[0]
        app.calls.finish("3", "done", 1.0, Display("read", "long gone"))
        app.calls.focus()
        await pilot.press("g")
        await pilot.pause(0.05)
        assert lines(app.calls)[1].strip(" ▌").startswith("150 older calls in the session's history")
        assert "file 150" in lines(app.calls)[2] and "file 151" in lines(app.calls)[3]
        assert len(app.calls._calls) == len(app.calls._all) == 100


async def test_an_id_used_twice_is_two_calls() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 40)) as pilot:
        app.calls.start("call_0", "read", Display("read", "first"))
        app.calls.start("call_0", "read", Display("read", "second"))
        app.calls.finish("call_0", "done", 0.1, Display("read", "second"))
        await pilot.pause(0.1)
        rows = lines(app.calls)
        assert rows[1][1] == "■" and "first" in rows[1]
        assert rows[2][1] == "✓" and "second" in rows[2]


async def test_enter_opens_the_call_under_the_cursor() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        app.calls.focus()
        await pilot.press("g", "enter", "G", "enter")
        assert [m.call_id for m in app.seen if isinstance(m, LogPane.Opened)] == ["1", "4"]


async def test_changes_of_a_file_add_up_and_the_newest_stands_last() -> None:
    app = Host()
    async with app.run_test(size=(120, 40)) as pilot:
        app.files.record([PaneFileChange("src/money.py", 2, 4, "newer")])
        await pilot.pause(0.1)
        rows = lines(app.files)
        assert [change.path for change in app.files.changes] == ["docs/changes.md", "src/money.py"]
        assert rows[2].strip().startswith("src/money.py") and rows[2].endswith("+8 −7")
        app.files.focus()
        await pilot.press("G", "enter")
        opened = [m.change for m in app.seen if isinstance(m, FilesPane.Opened)]
        assert [(change.path, change.diff) for change in opened] == [("src/money.py", "newer")]


async def test_a_path_too_long_keeps_its_name() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 40)) as pilot:
        app.files.record([PaneFileChange("very/" * 40 + "deep/name.py", 1, 0, "")])
        await pilot.pause(0.1)
        row = lines(app.files)[1]
        assert row.strip().startswith("…") and "deep/name.py" in row and row.endswith("+1 −0")


async def test_of_very_many_files_the_newest_are_listed_and_all_are_counted() -> None:
    app = Host(filled=False)
    async with app.run_test(size=(120, 40)) as pilot:
        many = (PaneFileChange(f"{number:05}.c", 0, 0, "", "added", True) for number in range(KEPT + 20))
        app.files.record(many, outside=True)
        app.files.count_unnamed(94_000, outside=True)
        app.files.record([PaneFileChange("own.c", 1, 0, "")])
        app.files.count_unnamed(3)
        await pilot.pause(0.1)
        rows = lines(app.files)
        assert rows[0].startswith(" FILES") and rows[0].rstrip().endswith(" 1 of 4 · 99,020 by others")
        assert "own.c" in rows[-1] and len(app.files.changes) == KEPT
        assert app.files.summary().figure == "1 of 4"
        app.files.clear()
        assert app.files.vacant and app.files.summary().figure == ""


async def test_panes_can_be_filled_before_they_are_on_the_screen() -> None:
    app = Host(filled=False)
    app.fill()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        assert app.agents.display and app.calls.count == 6
