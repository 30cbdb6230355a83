"""Images of the clipboard, by programs that stand in for those of desktops."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.tui.conversation.clipboard_images import NoImageError, clipboard_image, keep
from tests.support.images import png
from tools.results import ToolError


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "held.png").write_bytes(png(9, 9))
    return {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "WAYLAND_DISPLAY": "wayland-0"}


async def test_the_clipboard_of_wayland_is_asked_what_it_holds(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    held = tmp_path / "held.png"
    listing = f'case "$*" in --list-types) echo text/html; echo image/png;; *image/png) cat {held};; esac'
    program(tmp_path / "bin", "wl-paste", listing)
    assert await clipboard_image(environ, "linux") == png(9, 9)


async def test_where_the_first_program_has_none_the_next_is_asked(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    program(tmp_path / "bin", "wl-paste", "exit 1")
    held = tmp_path / "held.png"
    program(
        tmp_path / "bin", "xclip", f'case "$*" in *TARGETS) echo image/png;; *image/png) cat {held};; esac'
    )
    assert await clipboard_image({**environ, "DISPLAY": ":0"}, "linux") == png(9, 9)


@pytest.mark.parametrize(
    ("changes", "script", "words"),
    [
        ({}, "", "install wl-paste"),
        ({}, "echo text/plain", "no image in the clipboard"),
        ({"WAYLAND_DISPLAY": "", "SSH_CONNECTION": "a"}, "", "on your own machine"),
        ({"WAYLAND_DISPLAY": "", "TMUX": "a"}, "", "of tmux"),
    ],
)
async def test_without_an_image_one_line_says_what_to_do(
    tmp_path: Path, environ: dict[str, str], changes: dict[str, str], script: str, words: str
) -> None:
    if script:
        program(tmp_path / "bin", "wl-paste", script)
    with pytest.raises(NoImageError, match=words):
        await clipboard_image({**environ, "PATH": str(tmp_path / "bin"), **changes}, "linux")


@pytest.mark.thorough
async def test_what_is_pasted_is_a_private_file_that_can_be_attached(tmp_path: Path) -> None:
    path = await keep(png(9, 9), tmp_path / "pasted")
    assert path.stat().st_mode & 0o777 == 0o600 and path.suffix == ".png"
    assert await keep(png(9, 9), tmp_path / "pasted") == path
    with pytest.raises(ToolError, match="not a png"):
        await keep(b"words", tmp_path / "pasted")
