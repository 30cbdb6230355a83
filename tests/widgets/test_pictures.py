"""Pictures in the conversation: drawn where they are in sight, let go elsewhere, whole in every form."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping

import pytest
from PIL import Image, ImageChops, ImageStat
from rich.color import Color
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from tests.support import sixel as terminal
from tests.support.images import png
from tests.support.waiting import until
from tools.results import Display
from tools.senses.pictures import Form, Thumbnail, cells, draw_thumbnail
from widgets.pictures import shelf
from widgets.pictures.shelf import KEPT, Graphics, graphics_of, half_blocks
from widgets.transcript.parts import AnswerItem, CallItem, Fold, UserItem
from widgets.transcript.view import Transcript

KITTY = {"TERM": "xterm-kitty"}


@pytest.mark.parametrize(
    ("wanted", "environ", "colours", "shown"),
    [
        ("auto", KITTY, "truecolor", Graphics.KITTY),
        ("auto", {"TERM": "xterm-ghostty"}, "truecolor", Graphics.KITTY),
        ("auto", {**KITTY, "TMUX": "/tmp/tmux"}, "truecolor", Graphics.BLOCKS),
        ("auto", {"TERM": "xterm-256color"}, "truecolor", Graphics.BLOCKS),
        ("auto", {"TERM": "xterm-256color"}, "256", Graphics.BLOCKS),
        ("auto", {"TERM": "xterm"}, "standard", Graphics.OFF),
        ("auto", {**KITTY, "NO_COLOR": "1"}, "truecolor", Graphics.OFF),
        ("off", KITTY, "truecolor", Graphics.OFF),
        ("kitty", {}, "truecolor", Graphics.KITTY),
    ],
)
def test_pictures_are_shown_as_the_terminal_can(
    wanted: str, environ: Mapping[str, str], colours: str, shown: Graphics
) -> None:
    assert graphics_of(wanted, environ, colours) is shown


@pytest.mark.parametrize(
    ("size", "placed"),
    [
        ((600, 280), (60, 14)),
        ((6000, 2800), (60, 14)),
        ((100, 100), (10, 5)),  # no small picture is blown up
        ((100, 4000), (1, 14)),
        ((4000, 100), (60, 1)),
        ((1, 1), (1, 1)),
    ],
)
def test_a_picture_keeps_its_proportions_within_its_place(
    size: tuple[int, int], placed: tuple[int, int]
) -> None:
    assert cells(*size, 60, 14) == placed


def test_half_blocks_show_two_pixels_a_cell() -> None:
    rows = half_blocks(bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255]), 2)
    assert [row.text for row in rows] == ["▀▀"]
    left, right = rows[0]
    assert left.style and left.style.color == Color.from_rgb(255, 0, 0)
    assert left.style.bgcolor == Color.from_rgb(0, 0, 255)
    assert right.style and right.style.bgcolor == Color.from_rgb(255, 255, 255)


def test_a_terminal_with_graphics_gets_the_picture_whole_and_a_sign_for_each_part_of_it() -> None:
    noise = Image.effect_noise((120, 80), 80).convert("RGB")
    file = io.BytesIO()
    noise.save(file, "PNG")
    small = draw_thumbnail(file.getvalue(), 12, 4, "png")
    pieces = list(shelf.send_sequences(0x0A0B0C, small.data, small.columns, small.rows))
    assert len(pieces) > 1 and all(len(piece) < shelf.PIECE + 100 for piece in pieces)
    told = [re.fullmatch(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", piece) for piece in pieces]
    assert f"i={0x0A0B0C},c=12,r=4," in pieces[0] and "U=1" in pieces[0]
    assert [found[1][-1] for found in told if found] == ["1"] * (len(pieces) - 1) + ["0"]
    whole = base64.b64decode("".join(found[2] for found in told if found))
    assert Image.open(io.BytesIO(whole)).size == (120, 80)

    rows = shelf.kitty_signs(0x0A0B0C, small.columns, small.rows)
    assert [row.cell_length for row in rows] == [12] * 4
    part = rows[3].crop(5, 7)  # as it is cut where something lies over it
    assert [segment.text for segment in part] == [
        "".join(f"{shelf.SIGN}\u0310{mark}" for mark in "\u033d\u033e")
    ]
    assert all(segment.style and segment.style.color == Color.from_rgb(10, 11, 12) for segment in part)
    assert len(set(shelf.MARKS)) == 64


@pytest.mark.parametrize("cell", [(10, 20), (7, 15), (9, 17)])
def test_sixel_graphics_are_the_picture_again_when_a_terminal_reads_them(cell: tuple[int, int]) -> None:
    before = Image.radial_gradient("L").resize((120, 60)).convert("RGB")
    before.paste((200, 30, 40), (0, 0, 60, 30))
    file = io.BytesIO()
    before.save(file, "PNG")
    small = draw_thumbnail(file.getvalue(), 12, 8, "sixel", cell)
    picture = shelf.cut(small.data, small.columns, small.rows)
    after = Image.new("RGB", (small.columns * cell[0], small.rows * cell[1]))
    for row, strip in enumerate(picture.strips):
        read = terminal.decoded(strip)
        assert read.size == (small.columns * cell[0], cell[1])
        assert read.getextrema()[3] == (255, 255), "a pixel was left out"
        after.paste(read.convert("RGB"), (0, row * cell[1]))
    wanted = before.resize(after.size, Image.Resampling.LANCZOS, reducing_gap=3.0)
    apart = ImageStat.Stat(ImageChops.difference(wanted, after)).mean
    assert max(apart) < 4, "of 255"
    with pytest.raises(ValueError, match="no sixel"):
        shelf.cut(small.data + b"\x1b]52;c;AAAA\x07", small.columns, small.rows)


def test_signs_become_sixel_graphics_on_their_way_to_the_terminal() -> None:
    small = draw_thumbnail(png(60, 40), 6, 2, "sixel")
    held = shelf.SixelPictures()
    slot = held.add(shelf.cut(small.data, small.columns, small.rows))
    assert held.add(shelf.cut(small.data, small.columns, small.rows)) == slot + 1
    first, second = shelf.sixel_signs(slot, small.columns, small.rows)
    assert [row.cell_length for row in (first, second)] == [6, 6]
    shown = held.with_graphics(f"before{second.text}behind")
    assert shown.startswith("before      \x1b7\x1b[6D\x1bP0;1;0q") and shown.endswith("\x1b\\\x1b8behind")
    assert held.with_graphics("plain") == "plain"
    part = held.with_graphics(first.crop(2, 5).text)  # as it is cut where something lies over it
    assert part.count("▀") == 3 and "\x1bP" not in part
    assert held.with_graphics(first.text + second.text) == " " * 12, (
        "rows that touch are not a row of one picture"
    )
    held.drop(slot)
    assert held.with_graphics(first.text) == " " * 6


class Stage(App[None]):
    """A conversation with pictures, and what its terminal was told."""

    def __init__(self, graphics: Graphics) -> None:
        super().__init__()
        self.transcript = Transcript()
        self.transcript.motion = False
        self.told: list[str] = []
        self.read: list[str] = []
        pictures = self.transcript.pictures
        pictures.graphics, pictures.load, pictures.write = graphics, self.load, self.told.append

    def compose(self) -> ComposeResult:
        yield self.transcript

    async def load(
        self, source: str, columns: int, rows: int, form: Form, cell: tuple[int, int]
    ) -> Thumbnail | None:
        self.read.append(source)
        if source == "gone":
            return None
        if source == "broken":
            raise ValueError("no such picture")
        if form == "sixel":
            return draw_thumbnail(png(80, 80), 8, 4, form)
        return Thumbnail(8, 4, b"png" if form == "png" else b"\x80" * (8 * 8 * 3), form)

    async def shown(self, pilot: Pilot[None], *sources: str) -> None:
        await until(pilot, lambda: set(sources) <= set(self.read), "the pictures were read")
        await until(pilot, lambda: not self.transcript.pictures._reads, "all of them")
        self.transcript.flush()

    @property
    def lines(self) -> list[str]:
        return [strip.text.strip(" ┃") for strip in self.transcript._picture.lines]


async def test_a_picture_stands_below_what_it_came_with_and_folds_away() -> None:
    app = Stage(Graphics.BLOCKS)
    async with app.run_test(size=(60, 30)) as pilot:
        drawn = CallItem(
            "1", "image_generate", Display("draw", "a lake", picture="lake.png"), {}, "done", 1.0
        )
        lost = CallItem("2", "image_generate", Display("draw", "a sea", picture="gone"), {}, "done", 1.0)
        harm = CallItem("3", "image_generate", Display("draw", "a bay", picture="broken"), {}, "done", 1.0)
        app.transcript.load([UserItem("look [image: a.png 1 KB]", 1, "prompt", ["a.png"]), drawn, lost, harm])
        await app.shown(pilot, "a.png", "lake.png", "gone", "broken")
        assert sum("▀" * 8 in line for line in app.lines) == 8
        assert "▀" in app.lines[1] and "look" in app.lines[0]
        before = len(app.read)
        app.transcript.document.fold(1, Fold.CLOSED)
        app.transcript.flush()
        assert sum("▀" * 8 in line for line in app.lines) == 4
        app.transcript.repaint()
        assert len(app.read) == before, "what cannot be read was read again"


@pytest.mark.sample(1)
@pytest.mark.parametrize("graphics", [Graphics.BLOCKS, Graphics.KITTY, Graphics.SIXEL])
async def test_pictures_out_of_sight_are_let_go_and_their_place_stays(graphics: Graphics) -> None:
    app = Stage(graphics)
    async with app.run_test(size=(60, 12)) as pilot:
        said = [UserItem(f"picture {at}", at, "prompt", [f"{at}.png"]) for at in range(12)]
        app.transcript.load(said)
        await app.shown(pilot, "11.png")
        transcript = app.transcript
        for at in range(10, -1, -1):
            # What comes into sight takes room that it did not have before, so a step may be too short.
            for _ in range(12):
                if f"{at}.png" not in app.read:
                    transcript._viewport.scroll(-6)
                    transcript.repaint()
                    await pilot.pause()
            await app.shown(pilot, f"{at}.png")
            assert transcript.pictures.picture_count <= 4 + KEPT
        height = transcript.document.heights.total
        transcript._viewport.to_end()
        transcript.repaint()
        await app.shown(pilot, "11.png")
        assert transcript.document.heights.total == height
        if graphics is Graphics.KITTY:
            sent = {m[1] for each in app.told if (m := re.search(r"U=1.*i=(\d+)", each))}
            gone = {m[1] for each in app.told if (m := re.search(r"a=d,d=I,i=(\d+)", each))}
            assert len(sent - gone) == transcript.pictures.picture_count and gone
            transcript.pictures.reload_all()
            assert transcript.pictures.picture_count == 0
        if graphics is Graphics.SIXEL:
            assert len(transcript.pictures.sixels._held) == transcript.pictures.picture_count
            shown = transcript.pictures.sixels.with_graphics("\n".join(app.lines))
            assert shown.count("\x1bP0;1;0q") >= 4 and shelf.SIGN not in shown


async def test_without_graphics_nothing_is_read_and_nothing_takes_room() -> None:
    app = Stage(Graphics.OFF)
    async with app.run_test(size=(60, 12)):
        app.transcript.load([UserItem("a [image: a.png 1 KB]", 1, "prompt", ["a.png"]), AnswerItem("b")])
        app.transcript.flush()
        assert [line for line in app.lines if line] == ["❯ a [image: a.png 1 KB]", "b"]
        assert not app.read
