"""The interpreter is shared in short turns while there is a screen, and only then."""

from __future__ import annotations

import argparse
import sys

import pytest

from app.cli import tui
from app.tui.startup.gc_scheduler import SWITCH, share_interpreter


def test_threads_give_way_sooner_for_as_long_as_it_is_asked_for() -> None:
    before = sys.getswitchinterval()
    with share_interpreter():
        assert sys.getswitchinterval() == pytest.approx(SWITCH)
    assert before > SWITCH
    assert sys.getswitchinterval() == before


def test_an_error_leaves_the_interpreter_as_it_was() -> None:
    before = sys.getswitchinterval()
    with pytest.raises(KeyError), share_interpreter():
        raise KeyError("no")
    assert sys.getswitchinterval() == before


def test_the_application_runs_in_short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = sys.getswitchinterval(), []

    async def show(_args: argparse.Namespace) -> int:
        seen.append(sys.getswitchinterval())
        return 3

    monkeypatch.setattr(tui, "_show", show)
    assert tui.run(argparse.Namespace()) == 3
    assert seen == [pytest.approx(SWITCH)]
    assert sys.getswitchinterval() == before
