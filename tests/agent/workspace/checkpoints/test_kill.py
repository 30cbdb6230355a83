"""Whoever is killed while adding or clearing leaves a store that verifies and that others continue with."""

from __future__ import annotations

from pathlib import Path

from tests.support.checkpoint_storm import delays, kill_once


def test_kills_at_any_moment_leave_a_sound_store_and_no_acknowledged_step_is_lost(tmp_path: Path) -> None:
    last = 0
    for seed, delay in enumerate(delays(5, seed=3)):
        kill = kill_once(tmp_path / "checkpoints", seed, delay)
        assert kill.problems == ()
        assert kill.last >= last
        last = kill.last
    assert last > 10
