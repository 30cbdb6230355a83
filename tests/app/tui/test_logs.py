"""The log file: private, and started over when it is full."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from app.tui.startup import logs


def test_a_full_log_becomes_the_older_one_and_a_new_one_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setattr(logs, "MAX_BYTES", 200)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(logging, "raiseExceptions", logging.raiseExceptions)
    level = root.level
    try:
        logs.start_logging()
        for number in range(4):
            logging.getLogger("test").info("line %d %s", number, "x" * 60)
    finally:
        root.setLevel(level)
        for handler in root.handlers:
            handler.close()
    now = (tmp_path / "logs" / "hermes.log").read_text()
    before = (tmp_path / "logs" / "hermes.log.1").read_text()
    assert "line 3" in now
    assert "line 0" in before
    assert max(len(now), len(before)) < 400
