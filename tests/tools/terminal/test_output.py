"""Bounded memory for unbounded output: the collector of one command, the window on a background process."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.terminal import output
from tools.terminal.output import OutputCollector, RollingText
from tools.text.safe_text import clean

TEXTS = st.lists(st.text("ab\n", max_size=12), max_size=40)


@pytest.mark.thorough
@given(TEXTS, st.integers(1, 60))
def test_a_window_shows_the_newest_lines_and_counts_all(pieces: list[str], limit: int):
    window = RollingText(limit)
    seen, lost, position = "", 0, 0
    for index, piece in enumerate(pieces):
        window.append(piece)
        if index % 3 == 0:
            text, dropped = window.since(position)
            position = window.total
            seen, lost = seen + "?" * dropped + text, lost + dropped
    text, dropped = window.since(position)
    seen += "?" * dropped + text
    whole = "".join(pieces)
    assert window.total == len(whole) == len(seen)
    assert all(one in ("?", two) for one, two in zip(seen, whole, strict=True))
    assert window.total_lines == whole.count("\n") + (not whole.endswith("\n")) if whole else 1
    kept, first = window.lines(0, 10_000)
    assert first + kept.count("\n") + bool(kept.rpartition("\n")[2]) == (window.total_lines if whole else 0)
    assert whole.endswith(kept) and len(kept) <= max(limit, len(kept.split("\n")[0]) + 1)
    if len(whole) <= limit:
        assert kept == whole and dropped == 0


def test_a_line_without_end_is_cut_at_its_front():
    window = RollingText(10)
    for _ in range(100):
        window.append("abc")
    assert window.lines(0, 5) == (("abc" * 100)[-10:], 0)
    assert window.since(290) == (("abc" * 100)[-10:], 0)
    assert window.since(0) == (("abc" * 100)[-10:], 290)


def collected(folder: Path, pieces: list[bytes], limit: int = 200) -> tuple[output.Output, str]:
    collector = OutputCollector(folder / "spool.txt", {}, limit)
    for piece in pieces:
        collector.feed(piece)
    result = collector.finish()
    return result, result.spool.read_text() if result.spool else ""


@pytest.mark.thorough
@given(st.lists(st.binary(max_size=60), max_size=20))
def test_collected_output_is_the_clean_whole_or_its_ends_with_the_whole_on_disk(
    tmp_path_factory, pieces: list[bytes]
):
    folder = tmp_path_factory.mktemp("out")
    result, kept = collected(folder, pieces)
    whole = clean(b"".join(pieces).decode("utf-8", "replace"))
    assert result.total == len(whole)
    if len(whole) <= 200:
        assert (result.text, result.spool) == (whole, None)
    else:
        head, _, rest = result.text.partition("\n[… ")
        _, _, tail = rest.partition(" left out …]\n")
        assert kept == whole
        assert len(result.text) <= 200
        assert whole.startswith(head) and whole.endswith(tail) and head and tail


@pytest.mark.thorough
def test_beyond_the_cap_of_the_file_only_the_end_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "SPOOL_BYTES", 10_000)
    lines = [f"line {number}\n".encode() for number in range(200_000)]
    result, kept = collected(tmp_path, lines, 500)
    assert kept.encode() == b"".join(lines)[: len(kept)] and 10_000 <= len(kept) < 10_100
    assert result.text.endswith("line 199998\nline 199999\n")
    assert result.total == sum(map(len, lines))
    assert "only the first" in result.spool_problem


def test_a_little_more_than_the_cap_loses_nothing_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "SPOOL_BYTES", 1_000)
    result, _ = collected(tmp_path, [b"x" * 99 + b"\n"] * 10 + [b"half of ", b"the last line"], 500)
    assert result.text.endswith("x\nhalf of the last line")


def test_a_file_that_cannot_be_written_costs_only_the_middle(tmp_path: Path):
    collector = OutputCollector(tmp_path / "missing" / "spool.txt", {}, 200)
    collector.feed(b"a" * 300 + b"\n")
    result = collector.finish()
    assert result.spool is None and "No such file" in result.spool_problem
    assert result.text.startswith("a") and "left out" in result.text
    collector.feed(b"too late")


def test_a_full_disk_is_told():
    collector = OutputCollector(Path("/dev/full"), {}, 200)
    collector.feed(b"a" * 300_000 + b"\n")
    assert "No space left" in collector.finish().spool_problem


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path):
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "spool.txt").symlink_to("precious")
    result, _ = collected(tmp_path, [b"a" * 300])
    assert result.spool is None and result.spool_problem
    assert (tmp_path / "precious").read_text() == "kept"


@pytest.mark.thorough
def test_the_newest_lines_can_be_seen_at_any_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "SPOOL_BYTES", 5_000)
    collector = OutputCollector(tmp_path / "spool.txt", {}, 400)
    for number in range(2_000):
        collector.feed(f"line {number}\n".encode())
        assert collector.last_lines().endswith(f"line {number}\n")
        assert collector.last_lines().count("\n") <= 20
    collector.feed(b"password=hunter2")
    assert "hunter2" not in collector.last_lines()
    collector.finish()
