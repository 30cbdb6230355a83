"""The prompt offers the files of the project."""

from __future__ import annotations

from pathlib import Path

from app.mentions import files_of


def test_files_are_listed_without_ignored_ones_and_noise(tmp_path: Path) -> None:
    for name in ("src/main.py", "node_modules/x.js", "build/out.o", ".env.example", "odd name\n.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref")
    (tmp_path / ".gitignore").write_text("build/\n")
    assert sorted(files_of(tmp_path)()) == [".env.example", ".gitignore", "odd name\n.txt", "src/main.py"]


def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    assert files_of(tmp_path / "gone")() == []
