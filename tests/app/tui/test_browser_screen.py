"""The page that the agent has open, on the screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from app.tui.screens.browser import BrowserScreen, picture_rows, read_page
from tests.app.tui.pages import PageHost, lines_of, pressing
from tests.support.waiting import until
from widgets.pictures.shelf import SIGN, Graphics, PictureCache

PAGE = """Sign in
https://example.org/login
heading "Sign in" [level=1]
form
 textbox "User" [ref=e1]: "ann"
 textbox "Password" [ref=e2]: ••••
 button "Sign in" [ref=e3]
text: No account yet? [bold]Ask[/bold] your \x1b[31madministrator.
"""


def kept(folder: Path) -> Path:
    """A session's folder with a page and its picture."""
    folder.mkdir()
    (folder / "page.txt").write_text(PAGE)
    picture = Image.new("RGB", (1280, 400), "#f4f4f8")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, 1280, 60), "#20407f")
    draw.rectangle((440, 120, 840, 180), "#ffffff", outline="#8888aa", width=6)
    draw.rectangle((440, 220, 840, 280), "#ffffff", outline="#8888aa", width=6)
    draw.rectangle((440, 320, 640, 370), "#2f9e5f")
    picture.save(folder / "page.jpg", quality=90)
    return folder


def test_a_picture_becomes_half_blocks_of_its_colours(tmp_path: Path) -> None:
    rows = picture_rows(kept(tmp_path / "browser") / "page.jpg", 40)
    assert len(rows) == 6
    assert {len(row.pixels) for row in rows} == {40}
    red, green, blue = rows[0].pixels[5][0]
    assert blue > red and blue > green
    (tmp_path / "browser" / "page.jpg").write_bytes(b"no picture")
    assert picture_rows(tmp_path / "browser" / "page.jpg") == ()


def test_without_a_page_it_says_so(tmp_path: Path) -> None:
    assert not read_page(tmp_path / "none").found


async def test_it_is_read_again_when_the_agent_goes_on(tmp_path: Path) -> None:
    folder = kept(tmp_path / "browser")
    host = PageHost(lambda: BrowserScreen(folder, colours=False))
    async with host.run_test(size=(80, 24)) as pilot:
        screen: Any = host.screen
        await until(pilot, lambda: 'button "Sign in"' in "\n".join(lines_of(screen.rows)))
        (folder / "page.txt").write_text('Home\nhttps://example.org/\nheading "Welcome" [level=1]\n')
        await pilot.press("f5")
        await until(pilot, lambda: "Welcome" in "\n".join(lines_of(screen.rows)))
        assert "https://example.org/" in str(screen.query_one("#page-state").render())


@pytest.mark.thorough
@pytest.mark.parametrize("graphics", [Graphics.KITTY, Graphics.SIXEL])
async def test_a_terminal_with_graphics_shows_the_picture_by_them(tmp_path: Path, graphics: Graphics) -> None:
    folder = kept(tmp_path / "browser")
    told: list[str] = []
    shelf = PictureCache(lambda _part: None, lambda _work: None)
    shelf.graphics, shelf.write = graphics, told.append
    host = PageHost(lambda: BrowserScreen(folder, shelf=shelf))
    async with host.run_test(size=(80, 24)) as pilot:
        screen: Any = host.screen
        await until(pilot, lambda: SIGN in "\n".join(lines_of(screen.rows)))
        lines = lines_of(screen.rows)
        assert all(SIGN in line for line in lines[:10]) and 'heading "Sign in"' in "\n".join(lines)
        if graphics is Graphics.SIXEL:
            assert shelf.sixels.with_graphics("\n".join(lines)).count("\x1bP0;1;0q") == 10
        else:
            assert any("U=1" in each for each in told)
        await pilot.press("escape")
        await until(pilot, lambda: host.screen is not screen)
        assert not shelf.sixels._held and (graphics is Graphics.SIXEL or "a=d" in told[-1])


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["narrow", "wide"])
@pytest.mark.parametrize("colours", [True, False], ids=["picture", "text"])
def test_the_page_looks_as_it_should(
    snap_compare: Any, tmp_path: Path, size: tuple[int, int], colours: bool
) -> None:
    folder = kept(tmp_path / "browser")
    host = PageHost(lambda: BrowserScreen(folder, colours=colours))
    assert snap_compare(host, terminal_size=size, run_before=pressing())
