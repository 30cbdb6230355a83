"""Texts of a suite, read up to a size."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.automation.evaluation.figures import bounded_text
from agent.errors import ConfigError


@pytest.mark.parametrize("letter", ["a", "ä", "\U0001f600"])
def test_a_text_that_is_too_large_is_called_so_wherever_it_is_cut(tmp_path: Path, letter: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n" + letter * 1_000_001, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"larger than 1 MB; use fewer pairs\.$"):
        bounded_text(path, 1_000_000, "use fewer pairs")


def test_a_text_that_fits_is_read_without_its_mark(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("name: ä\n", encoding="utf-8-sig")
    assert bounded_text(path, 1_000_000, "shorten it") == "name: ä\n"


@pytest.mark.parametrize(
    ("data", "sentence"), [(b"\xff\xfe", "is not encoded in UTF-8"), (None, "cannot be read")]
)
def test_a_text_that_cannot_be_read_is_named(tmp_path: Path, data: bytes | None, sentence: str) -> None:
    path = tmp_path / "suite.yaml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ConfigError, match=f"suite.yaml {sentence}"):
        bounded_text(path, 1_000_000, "shorten it")
