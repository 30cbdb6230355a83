"""Messengers with a service, as far as every run can afford it; `test_gateways.py` has the rest."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from agent.api.remote import check_move
from agent.errors import HermesError
from tests.support import command
from tests.support.chat_abilities import ABILITIES
from tests.support.chat_kills import ALL_PLATFORMS, kill_at_any_moment
from tests.support.chat_stage import ChatStage, shown
from tests.support.telegram_server import TelegramServer
from tests.support.webhook_server import WebhookServer


@pytest.mark.thorough
def test_on_every_messenger_a_message_is_one_turn_over_a_kill(tmp_path: Path) -> None:
    with ChatStage(tmp_path / "stage", *(each() for each in ALL_PLATFORMS)) as stage:
        kill_at_any_moment(stage, 1)
        assert [each for platform in stage.platforms.values() for each in platform.refusals] == []


def test_each_ability_of_the_table_is_tried_on_each_messenger() -> None:
    tests = Path(__file__).with_name("test_gateways.py").read_text("utf-8")
    for each in ABILITIES:
        begin = tests.index(f"def {each.test}(")
        assert "platform: Any" in tests[begin:].partition("\n")[0] or "kills" in each.test


@pytest.mark.thorough
def test_gateway_run_brings_the_service_along_and_leaves_at_ctrl_c(tmp_path: Path) -> None:
    with ChatStage(tmp_path / "stage", TelegramServer(), WebhookServer()) as stage:
        port = stage.service.port
        stage.service.stop()
        line = [*command.HERMES, "gateway", "run", "--port", str(port)]
        run = subprocess.Popen(line, env=stage.service.env, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        assert run.stdout is not None
        try:
            told = run.stdout.readline()
            assert told.startswith("hermes gateway: ") and f"http://127.0.0.1:{port}" in told
            for name, platform in stage.platforms.items():
                assert name in told
                platform.write(f"by-the-gateway-{name}")
                assert shown(platform, f"by-the-gateway-{name}").text == f"Echo: by-the-gateway-{name}"
            socket = stage.home / "run" / "service.sock"
            for where in ("telegram", "webhook", "terminal"):
                # Nothing is refused, and nothing moves yet.
                asyncio.run(check_move(socket, where))
            with pytest.raises(HermesError, match="is not set up"):
                asyncio.run(check_move(socket, "signal"))
            assert not any("goes on" in each.text for e in stage.platforms.values() for each in e.shown)
            status = json.loads(stage.run("gateway", "status", "--json"))
            running = {each["name"] for each in status["gateways"] if each["state"] == "running"}
            assert status["service"] is True and running == {"telegram", "webhook"}
            assert "runs them already" in stage.run("gateway", "run")
            run.send_signal(signal.SIGINT)
            assert run.wait(30) == 0
        finally:
            run.kill()
            run.wait()
            run.stdout.close()
        assert json.loads(stage.run("gateway", "status", "--json"))["service"] is False
        assert [each for platform in stage.platforms.values() for each in platform.refusals] == []
