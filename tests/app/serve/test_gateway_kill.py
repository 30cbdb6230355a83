"""All messengers over a kill, as far as every run can afford it; `test_gateways.py` has the rest."""

from __future__ import annotations

from pathlib import Path

from tests.support.chat_kills import ALL_PLATFORMS, kill_at_any_moment
from tests.support.chat_stage import ChatStage


def test_on_every_messenger_a_message_is_one_turn_over_a_kill(tmp_path: Path) -> None:
    with ChatStage(tmp_path / "stage", *(each() for each in ALL_PLATFORMS)) as stage:
        kill_at_any_moment(stage, 1)
        assert [each for platform in stage.platforms.values() for each in platform.refusals] == []
