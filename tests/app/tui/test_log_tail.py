"""Following a log file: only its end, safe to show, whatever happens to it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.tui.screens.logviewer import LINE_CHARS, TAIL_BYTES, LogTail, UnreadableLogError


def record(message: str, level: str = "INFO") -> str:
    return f"2026-11-22 14:02:11,123 4711 {level} agent.session.engine {message}\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "hermes.log"


def test_a_record_is_taken_apart(log: Path) -> None:
    log.write_text(record("it began", "WARNING"))
    (line,) = LogTail(log, {}).read().lines
    assert (line.level, line.time, line.name, line.message) == (
        logging.WARNING,
        "14:02:11",
        "agent.session.engine",
        "it began",
    )


def test_a_traceback_has_the_level_of_its_record(log: Path) -> None:
    log.write_text(record("broke", "ERROR") + "Traceback:\n  File x\n" + record("went on"))
    assert [line.level for line in LogTail(log, {}).read().lines] == [40, 40, 40, 20]


def test_only_news_is_read_again_and_half_a_line_waits(log: Path) -> None:
    log.write_text(record("one") + "half of")
    tail = LogTail(log, {})
    first = tail.read()
    assert [line.message for line in first.lines] == ["one"] and first.replaces
    assert tail.read().lines == ()
    with log.open("a") as file:
        file.write(" a line\n" + record("two"))
    news = tail.read()
    assert [line.message for line in news.lines] == ["half of a line", "two"] and not news.replaces


def test_rotation_and_truncation_begin_anew(log: Path) -> None:
    log.write_text(record("old one") + record("old two"))
    tail = LogTail(log, {})
    tail.read()
    log.rename(log.with_name("hermes.log.1"))
    log.write_text(record("rotated"))
    news = tail.read()
    assert news.replaces and [line.message for line in news.lines] == ["rotated"]
    log.write_text("x\n")
    news = tail.read()
    assert news.replaces and [line.text for line in news.lines] == ["x"]


def test_only_the_tail_of_a_long_file_is_read_and_it_begins_with_a_whole_line(log: Path) -> None:
    line = record("sk_live_1234567890abcdefABCDEF number")
    log.write_text(line * (3 * TAIL_BYTES // len(line)))
    lines = LogTail(log, {}).read().lines
    assert TAIL_BYTES // len(line) - 2 <= len(lines) <= TAIL_BYTES // len(line) + 1
    assert all(each.time and "1234567890abcdef" not in each.text for each in lines)


def test_more_news_than_a_tail_begins_anew(log: Path) -> None:
    log.write_text(record("one"))
    tail = LogTail(log, {})
    tail.read()
    with log.open("a") as file:
        file.write(record("more") * (2 * TAIL_BYTES // 60))
    assert tail.read().replaces


def test_a_line_longer_than_a_tail_is_left_out_and_the_next_one_is_not(log: Path) -> None:
    log.write_text("x" * (TAIL_BYTES + 10))
    tail = LogTail(log, {})
    assert tail.read().lines == ()
    with log.open("a") as file:
        file.write("its end\n" + record("next"))
    assert [line.message for line in tail.read().lines] == ["next"]


def test_long_lines_are_cut_with_a_mark(log: Path) -> None:
    log.write_text("y" * (LINE_CHARS + 1) + "\n")
    (line,) = LogTail(log, {}).read().lines
    assert line.text == "y" * LINE_CHARS + " …"


def test_secrets_are_masked_also_those_of_the_environment_and_keys_of_many_lines(log: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + ("QUJD" * 16 + "\n") * 3 + "-----END PRIVATE KEY-----\n"
    log.write_text(record("key is hunter2hunter2") + record("Authorization: Bearer abcd1234efgh5678") + key)
    shown = "\n".join(line.text for line in LogTail(log, {"MY_API_KEY": "hunter2hunter2"}).read().lines)
    assert "hunter2" not in shown and "abcd1234" not in shown and "QUJD" not in shown
    assert "[MY_API_KEY redacted]" in shown


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_no_byte_reaches_the_terminal_as_control(log: Path, data: bytes) -> None:
    log.write_bytes(data + b"\n")
    for line in LogTail(log, {}).read().lines:
        assert line.text.replace("\u200c", "").replace("\u200d", "").isprintable()


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=9), max_size=8), st.data()
)
def test_lines_are_the_same_however_the_file_grew(log: Path, words: list[str], data: st.DataObject) -> None:
    content = "".join(word + "\n" for word in words).encode()
    log.write_bytes(b"")
    tail, seen, at = LogTail(log, {}), [], 0
    while at < len(content):
        step = data.draw(st.integers(1, 12))
        with log.open("ab") as file:
            file.write(content[at : at + step])
        at += step
        seen += [line.text for line in tail.read().lines]
    assert seen == words


def test_what_cannot_be_read_is_a_sentence(log: Path, tmp_path: Path) -> None:
    tail = LogTail(log, {})
    with pytest.raises(UnreadableLogError, match=r"There is no log at .* yet"):
        tail.read()
    os.mkfifo(log)
    with pytest.raises(UnreadableLogError, match="cannot be read: it is a"):
        tail.read()
    with pytest.raises(UnreadableLogError, match="cannot be read"):
        LogTail(tmp_path, {}).read()
    log.unlink()
    log.symlink_to(log)
    with pytest.raises(UnreadableLogError, match="cannot be read"):
        tail.read()
    log.unlink()
    log.write_text(record("back"))
    assert [line.message for line in tail.read().lines] == ["back"]
