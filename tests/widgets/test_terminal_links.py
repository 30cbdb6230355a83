"""Links that the terminal opens: what they may be, and that they reach it with the rows."""

from __future__ import annotations

import re

import pytest

from tests.support.painted import PaintedScreen
from tests.widgets.test_direct_rows import SIZE, Stage, say
from widgets.painting.filtered_rows import link_address

ROOT = "file://host/home/a%20b/"


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("https://a.org/x?q=1#y", "https://a.org/x?q=1#y"),
        ("src/main.py", "file://host/home/a%20b/src/main.py"),
        ("src/main.py:12", "file://host/home/a%20b/src/main.py#12"),
        ("src/main.py:12:4", "file://host/home/a%20b/src/main.py#12"),
        ("src/main.py#L12", "file://host/home/a%20b/src/main.py#12"),
        ("src/main.py 1–80", "file://host/home/a%20b/src/main.py#1"),
        ("my file.txt", "file://host/home/a%20b/my%20file.txt"),
        ("/etc/hosts", "file://host/etc/hosts"),
        ("../größe", "file://host/home/gr%C3%B6%C3%9Fe"),
        ("https://a.org/é\x1b\\x", "https://a.org/%C3%A9%1B%5Cx"),
        ("javascript:alert(1)", ""),
        ("file:///etc/passwd", ""),
        ("x-app:12", "file://host/home/a%20b/x-app#12"),
        ("~/x", ""),
        ("a\nb", ""),
        ("", ""),
        ("https://a.org/" + "x" * 3_000, ""),
    ],
)
def test_an_address_is_a_page_or_a_file_in_plain_ascii(target: str, address: str) -> None:
    assert link_address(target, ROOT) == address


async def test_links_reach_the_terminal_and_its_cells_stay_the_same() -> None:
    app = Stage()
    async with app.run_test(size=SIZE):
        app.transcript.link_files(lambda: ROOT)
        say(app, "See [the docs](https://a.org/d), `src/main.py:12` and `x = 1`.\n\n")
        written = "".join(app.written)
        assert (
            ";https://a.org/d\x1b\\" in written and ";file://host/home/a%20b/src/main.py#12\x1b\\" in written
        )
        assert written.count("\x1b]8;") == 4
        painted = PaintedScreen(*SIZE)
        painted.feed(re.sub(r"\x1b\]8;[^\x1b]*\x1b\\", "", written))
        assert painted.faults == []
        assert "See the docs, src/main.py:12 and x = 1." in painted.text(0, 1, 48, 11)


async def test_without_a_folder_no_links_are_sent() -> None:
    app = Stage()
    async with app.run_test(size=SIZE):
        say(app, "See [the docs](https://a.org/d) and `src/main.py:12`.\n\n")
        assert "\x1b]8" not in "".join(app.written)
