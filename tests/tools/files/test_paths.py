"""From text to a place: what is resolved, what is refused."""

import os
from pathlib import Path

import pytest

from tools.files.access import display_path, resolve, resolve_entry
from tools.results import ToolError


def test_a_relative_path_starts_in_the_workspace(work: Path) -> None:
    assert resolve("src/../a.py", work) == work / "a.py"


def test_a_tilde_is_the_home_folder(work: Path, home: Path) -> None:
    assert resolve("~/notes.txt", work) == home.resolve() / "notes.txt"


def test_variables_are_not_expanded(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_PLACE", "/etc")
    assert resolve("$SECRET_PLACE/passwd", work) == work / "$SECRET_PLACE" / "passwd"


def test_links_are_followed_before_dots(work: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "deep"
    elsewhere.mkdir(parents=True)
    (work / "link").symlink_to(elsewhere)
    assert resolve("link/../x", work) == (tmp_path / "elsewhere" / "x").resolve()


def test_an_entry_keeps_the_link_at_its_end(work: Path) -> None:
    (work / "target").write_text("x")
    (work / "link").symlink_to("target")
    assert resolve("link", work) == work / "target"
    assert resolve_entry("link", work) == work / "link"


@pytest.mark.parametrize("text", ["a\0b", "", "  ", "\ud800x"])
def test_what_can_name_no_file_is_refused(work: Path, text: str) -> None:
    with pytest.raises(ToolError):
        resolve(text, work)


@pytest.mark.parametrize(
    "text", ["/dev/null", "/proc/self/environ", "/sys/kernel", "/dev", "/dev/../proc/1/mem"]
)
def test_kernel_folders_are_refused(work: Path, text: str) -> None:
    with pytest.raises(ToolError, match="kernel data"):
        resolve(text, work)


def test_a_link_into_a_kernel_folder_is_refused(work: Path) -> None:
    (work / "zero").symlink_to("/dev/zero")
    with pytest.raises(ToolError, match="kernel data"):
        resolve("zero", work)


def test_a_loop_of_links_is_refused(work: Path) -> None:
    (work / "a").symlink_to("b")
    (work / "b").symlink_to("a")
    with pytest.raises(ToolError, match="loop"):
        resolve("a", work)


@pytest.mark.parametrize("text", ["..", "src/..", "/"])
def test_an_entry_needs_a_name(work: Path, text: str) -> None:
    with pytest.raises(ToolError, match="names no file"):
        resolve_entry(text, work)


def test_paths_are_shown_relative_inside_the_workspace_only(work: Path) -> None:
    assert display_path(work / "src" / "a.py", work) == "src/a.py"
    assert display_path(Path("/etc/hosts"), work) == "/etc/hosts"


def test_names_that_are_no_text_are_shown_as_text(work: Path) -> None:
    assert display_path(Path(os.fsdecode(bytes(work) + b"/a\xff.txt")), work) == "a\\xff.txt"
