"""The timeline over a real store: what it shows, what its keys do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from app.tui.screens import dialog as dialogs
from app.tui.screens.dialog import Dialog
from app.tui.screens.history.timeline import TimelineScreen
from app.tui.screens.history.timeline_files import FileDifferenceRow, FileScreen, FilesScreen, Sides, diff_of
from tests.app.tui.pages import PageHost, lines_of, settled
from tests.app.tui.timeline_stage import NOW, Book, opened, small, three
from tests.support.waiting import until
from widgets.timeline.layout import TimelineFilter, lay_out

NARROW, WIDE = (80, 24), (120, 40)
Build = Callable[[Book], Awaitable[None]]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialogs, "ARMING_DELAY", 0.01)


class Stage:
    """The screen, its host, its book."""

    def __init__(self, pilot: Pilot[Any], host: PageHost, screen: TimelineScreen, book: Book) -> None:
        self.pilot, self.host, self.screen, self.book = pilot, host, screen, book

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
            await self.pilot.pause()

    async def until(self, true: Callable[[], object]) -> None:
        await until(self.pilot, true)

    @property
    def lines(self) -> list[str]:
        return [line for line in lines_of(self.screen.timeline) if line]

    def preview(self) -> str:
        return str(self.screen.query_one("#timeline-about", Static).render())

    async def dialog(self, *keys: str) -> None:
        await self.until(lambda: isinstance(self.host.screen, Dialog) and self.host.screen.armed)
        await self.press(*keys)
        await self.until(lambda: self.host.screen is self.screen)


@asynccontextmanager
async def staged(
    folder: Path, build: Build | None = three, size: tuple[int, int] = WIDE, at: int | None = None
) -> AsyncIterator[Stage]:
    book = await opened(folder)
    async with book.store:
        if build is not None:
            await build(book)
        screen = TimelineScreen(book, at=at, now=lambda: NOW)
        host = PageHost(lambda: screen)
        async with host.run_test(size=size) as pilot:
            await until(pilot, lambda: screen.complete)
            yield Stage(pilot, host, screen, book)


@pytest.mark.thorough
async def test_it_opens_at_the_end_of_the_branch_in_use_with_turns_folded(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        row = stage.screen.timeline.selected_node
        assert row is not None and row.text == "and add a changelog line"
        assert [line.split("  ")[0].strip(" ▌")[:22].rstrip() for line in stage.lines] == [
            "◌ the beginning",
            "● The invoice totals a",
            "├─● Try it with intege",
            "│ ├─● Pad KWD by hand",
            "│ ● Or with fractions?",
            "● and add a changelog",
        ]
        await stage.until(lambda: "+1" in stage.lines[-1])
        await stage.until(lambda: stage.preview().startswith("You · "))


@pytest.mark.thorough
async def test_a_preview_survives_the_row_it_was_asked_for(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        timeline = stage.screen.timeline
        last = timeline.drawing.lines[-1]
        timeline.move_to(len(timeline.drawing.lines) - 1)
        # The message that the cursor moved is handled, and its preview waits, before fewer rows come.
        await asyncio.sleep(0.01)
        words = TimelineFilter("matches", needle=timeline.nodes.rows[0].text or "system")
        timeline.show_drawing(lay_out(timeline.nodes, words), timeline.nodes.rows[last.node].id)
        assert len(timeline.drawing.lines) <= 1
        await stage.pilot.pause(0.15)
        assert stage.screen.is_current


@pytest.mark.thorough
async def test_it_opens_at_a_message_of_the_conversation(tmp_path: Path) -> None:
    async with staged(tmp_path, at=2) as stage:
        row = stage.screen.timeline.selected_node
        assert row is not None and row.id == 2


@pytest.mark.thorough
async def test_space_unfolds_a_turn_and_z_all_of_them(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.press("space")
        await stage.until(lambda: len(stage.lines) == 8)
        assert any("write_file" in line for line in stage.lines)
        await stage.press("space", "z")
        await stage.until(lambda: len(stage.lines) == 17)


@pytest.mark.thorough
async def test_search_finds_what_is_folded_away_and_opens_it(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.press("slash", *"three digits", "enter")
        await stage.until(
            lambda: (row := stage.screen.timeline.selected_node) is not None and "Three tests" in row.text
        )
        await stage.press("escape")
        assert stage.screen.timeline.timeline_filter.needle or stage.host.screen is stage.screen
        assert not stage.host.outcomes


@pytest.mark.thorough
async def test_a_restore_asks_what_and_leaves_everything_by_default(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.press("R")
        await stage.dialog("enter")
        assert stage.book.done == []
        node = stage.screen.timeline.selected_node
        assert node is not None
        for key, what in (("1", "both"), ("2", "conversation"), ("3", "files")):
            await stage.press("R")
            await stage.dialog(key)
            await stage.until(lambda what=what: ("restore", node.id, what) in stage.book.done)
        assert "Files and conversation are as they were." in stage.host.told


@pytest.mark.thorough
async def test_a_branch_is_begun_switched_to_and_renamed(tmp_path: Path) -> None:
    async with staged(tmp_path, small) as stage:
        await stage.press("k", "b")
        await stage.until(lambda: isinstance(stage.host.screen, Dialog))
        await stage.dialog("enter")
        await stage.until(lambda: any("branch-2" in line for line in stage.lines))
        assert [head.name for head in await stage.book.heads()][:2] == ["branch-2", "main"]
        await stage.press("j", "S")
        await stage.until(lambda: "On branch main." in stage.host.told)
        await stage.until(lambda: any("● main" in line for line in stage.lines))
        await stage.press("k", "r")
        await stage.until(lambda: isinstance(stage.host.screen, Dialog))
        await stage.dialog("ctrl+u", *"cents", "enter")
        await stage.until(lambda: any("◇ cents" in line for line in stage.lines))


@pytest.mark.thorough
async def test_a_branch_begins_with_a_note_of_what_is_left_if_so_wished(tmp_path: Path) -> None:
    async with staged(tmp_path, small) as stage:
        await stage.press("k", "B")
        await stage.until(lambda: isinstance(stage.host.screen, Dialog))
        await stage.dialog("enter")
        await stage.until(lambda: "On branch branch-2 with a note." in stage.host.told)


@pytest.mark.thorough
async def test_labels_and_bookmarks_are_put_and_taken_away(tmp_path: Path) -> None:
    async with staged(tmp_path, small) as stage:
        await stage.press("asterisk")
        await stage.until(lambda: "★" in stage.lines[-1])
        await stage.press("e")
        await stage.until(lambda: isinstance(stage.host.screen, Dialog))
        await stage.dialog(*"good", "enter")
        await stage.until(lambda: "[good]" in stage.lines[-1])
        await stage.press("asterisk")
        await stage.until(lambda: "★" not in stage.lines[-1])


@pytest.mark.thorough
async def test_two_points_are_compared_file_by_file(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.press("c")
        assert "Press m on one point first, then d on the other." in stage.host.told
        await stage.press("m", "g", "j", "c")
        await stage.until(lambda: isinstance(stage.host.screen, FilesScreen))
        files = stage.host.screen
        assert isinstance(files, FilesScreen)
        await stage.until(lambda: files.rows.count == 1)
        assert "src/money.py" in lines_of(files.rows)[0]
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.host.screen, FileScreen))
        shown = stage.host.screen
        assert isinstance(shown, FileScreen)
        await stage.until(lambda: shown.rows.count)
        assert any("│" in line and line.count("def round") == 2 for line in lines_of(shown.rows)) or any(
            "- def round" in line and "+ def round" in line for line in lines_of(shown.rows)
        )
        await stage.press("escape", "escape", "escape", "escape")
        await stage.until(lambda: stage.host.outcomes == [None])


@pytest.mark.thorough
async def test_a_refusal_is_said_and_nothing_closes(tmp_path: Path) -> None:
    async with staged(tmp_path, small) as stage:
        await stage.press("E")
        await stage.until(lambda: "The disk is full; nothing was exported." in stage.host.told)
        assert stage.host.screen is stage.screen


async def test_outside_text_is_shown_without_markup_and_control_bytes(tmp_path: Path) -> None:
    async def hostile(book: Book) -> None:
        await book.say("[red]x[/] \x1b]52;c;aGk=\x07\u202eevil [unclosed\x9b31m")
        await book.use("pa[/]tch\x1b[2J", {"a\udcff\x1b[31m[b].py": "x\n", "[/].py": "y\n"})
        await book.store.fork(book.session, 1, "[bold]b")

    async with staged(tmp_path, hostile, NARROW) as stage:
        await stage.press("z")
        await stage.until(lambda: len(stage.lines) == 2)
        await stage.until(lambda: "+2" in stage.lines[1])
        whole = "".join(stage.lines)
        assert "[red]x[/]" in whole and "[bold]b" in whole
        assert not any(character in whole for character in "\x1b\x07\x9b\u202e\udcff")


def test_a_file_that_is_no_text_says_so_instead_of_lines() -> None:
    change = FileDifferenceRow("a.bin", "changed", note="binary, 4 KB")
    assert diff_of(change, Sides(None, None, "Both are binary.")) == ("", "Both are binary.")
    assert diff_of(change, Sides("a\n", "a\n")) == ("", "binary, 4 KB")
    gone = FileDifferenceRow("build", "deleted", note="folder")
    assert diff_of(gone, Sides("", None)) == ("", "Folder deleted.")
    assert diff_of(FileDifferenceRow("new.py", "added"), Sides(None, "")) == ("", "Empty file added.")
    text, _ = diff_of(FileDifferenceRow("new.py", "added"), Sides(None, "a\n"))
    assert text.startswith("--- /dev/null\n+++ b/new.py\n")


LOOKS: dict[str, tuple[Build | None, tuple[str, ...], Callable[[PageHost, TimelineScreen], object]]] = {
    "small": (small, (), lambda host, screen: screen.timeline.count == 3),
    "three-branches": (three, ("z",), lambda host, screen: screen.timeline.count == 17),
    "folded": (three, (), lambda host, screen: screen.timeline.count == 6),
    "filtered": (three, ("f", "f"), lambda host, screen: screen.timeline.timeline_filter.filter == "files"),
    "files": (
        three,
        ("g", "j", "m", "j", "j", "c"),
        lambda host, screen: isinstance(host.screen, FilesScreen),
    ),
    "diff": (
        three,
        ("g", "j", "m", "j", "j", "c", "enter"),
        lambda host, screen: isinstance(host.screen, FileScreen),
    ),
    "empty": (None, (), lambda host, screen: not screen.timeline.count),
}


@pytest.mark.thorough
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("look", list(LOOKS))
def test_it_looks_as_it_should(snap_compare: Any, tmp_path: Path, look: str, size: tuple[int, int]) -> None:
    build, keys, shows = LOOKS[look]

    async def play(pilot: Pilot[Any]) -> None:
        host = pilot.app
        assert isinstance(host, PageHost)
        await until(pilot, lambda: len(host.screen_stack) == 2)
        book = await opened(tmp_path)
        async with book.store:
            if build is not None:
                await build(book)
            screen = TimelineScreen(book, now=lambda: NOW)
            host.push_screen(screen)
            await until(pilot, lambda: screen.complete)
            await settled(pilot)
            for key in keys:
                await pilot.press(key)
                await settled(pilot)
            assert shows(host, screen)

    assert snap_compare(PageHost(Screen), terminal_size=size, run_before=play)
