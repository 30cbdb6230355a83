"""Paths in what is pasted or written."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.prompt.draft import MOST, MentionedFile, images_mentioned, readings


@pytest.mark.parametrize(
    ("pasted", "path"),
    [
        ("/home/ada/chart.png", "/home/ada/chart.png"),
        ("'/home/ada/my chart.png' ", "/home/ada/my chart.png"),
        ('"/home/ada/my chart.png"', "/home/ada/my chart.png"),
        (r"/home/ada/my\ chart\ \(2\).png", "/home/ada/my chart (2).png"),
        ("/home/ada/my chart.png", "/home/ada/my chart.png"),
        (r"'/home/ada/it'\''s.png'", "/home/ada/it's.png"),
        ("file:///home/ada/my%20chart.png", "/home/ada/my chart.png"),
        ("file://localhost/home/ada/%C3%A4.png\n", "/home/ada/ä.png"),
        ("~/chart.png", "~/chart.png"),
    ],
)
def test_a_dropped_file_is_read_in_every_form_terminals_paste_it(pasted: str, path: str) -> None:
    assert [path] in readings(pasted)


@pytest.mark.parametrize(
    "pasted", ["/a/x.png\n/b/y z.png\n", "/a/x.png '/b/y z.png'", "file:///a/x.png\nfile:///b/y%20z.png"]
)
def test_several_files_come_in_a_line_or_one_a_line(pasted: str) -> None:
    assert ["/a/x.png", "/b/y z.png"] in readings(pasted)


@pytest.mark.parametrize(
    "pasted",
    [
        "",
        "chart.png",
        "see /home/ada/chart.png",
        "file://elsewhere/chart.png",
        "file://[broken",
        "'unbalanced",
        "https://example.org/a.png",
        "/a/b.png\nand a sentence",
        "/x " * (MOST + 1),
        "/" * 30_000,
    ],
)
def test_other_pastes_are_no_paths(pasted: str) -> None:
    assert [reading for reading in readings(pasted) if reading != [pasted.strip()]] == []


_NAMES = st.text(
    st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"], blacklist_characters="/"),
    min_size=1,
    max_size=20,
).filter(lambda name: name.strip() == name and name not in (".", ".."))


@pytest.mark.thorough
@given(st.lists(_NAMES, min_size=1, max_size=4))
def test_quoted_paths_and_addresses_come_back_as_they_were(names: list[str]) -> None:
    paths = [f"/folder/{name}" for name in names]
    assert paths in readings(
        " ".join(f"'{path.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'" for path in paths)
    )
    assert paths in readings(shlex.join(paths))
    assert paths in readings("\n".join(PurePosixPath(path).as_uri() for path in paths))
    assert paths in readings("\n".join("file://" + quote(path) for path in paths))


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    for reading in readings(text):
        assert all(reading)
    assert len(set(images_mentioned(text))) == len(images_mentioned(text))


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("see @chart.png.", [MentionedFile("@chart.png", "chart.png")]),
        ('(@"my chart.PNG")', [MentionedFile('@"my chart.PNG"', "my chart.PNG")]),
        ("@a.jpg and @a.jpg", [MentionedFile("@a.jpg", "a.jpg")]),
        ("@a.gif\n@b.webp!", [MentionedFile("@a.gif", "a.gif"), MentionedFile("@b.webp", "b.webp")]),
        ("mail me@chart.png, @notes.txt, @", []),
    ],
)
def test_images_are_found_where_a_message_mentions_them(text: str, mentions: list[MentionedFile]) -> None:
    assert images_mentioned(text) == mentions
