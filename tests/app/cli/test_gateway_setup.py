"""`hermes gateway setup`: a token is tried, then kept, and only then a messenger is on."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from agent.errors import ConfigError
from app.cli.automate import gateway
from tests.support import command, discord_server, matrix_server, slack_server, whatsapp_server
from tests.support.mail_server import ADDRESS, PASSWORD, MailServer
from tests.support.signal_server import ACCOUNT, SignalServer
from tests.support.telegram_server import TOKEN, TelegramServer
from tests.support.webhook_server import SECRET, WebhookServer


class Stage(NamedTuple):
    """One messenger: its settings, its secrets by variable, and who we are there."""

    settings: list[str]
    secrets: dict[str, str]
    who: str


@asynccontextmanager
async def telegram() -> AsyncIterator[Stage]:
    with TelegramServer() as server:
        yield Stage([f"api_url={server.settings()['api_url']}"], {"TELEGRAM_BOT_TOKEN": TOKEN}, "@hermes_bot")


@asynccontextmanager
async def signal() -> AsyncIterator[Stage]:
    with SignalServer() as server:
        yield Stage([f"api_url={server.settings()['api_url']}", f"account={ACCOUNT}"], {}, ACCOUNT)


@asynccontextmanager
async def webhook() -> AsyncIterator[Stage]:
    with WebhookServer() as server:
        url = server.settings()["api_url"]
        yield Stage([f"api_url={url}"], {"HERMES_WEBHOOK_SECRET": SECRET}, url)


@asynccontextmanager
async def discord() -> AsyncIterator[Stage]:
    async with discord_server.DiscordServer() as server:
        name = discord_server.user(discord_server.ME, bot=True)["username"]
        yield Stage([f"api_url={server.url}"], {"DISCORD_BOT_TOKEN": discord_server.TOKEN}, f"@{name}")


@asynccontextmanager
async def slack() -> AsyncIterator[Stage]:
    async with slack_server.SlackServer() as server:
        tokens = {"SLACK_BOT_TOKEN": slack_server.BOT, "SLACK_APP_TOKEN": slack_server.APP}
        yield Stage([f"api_url={server.url}"], tokens, "@bot")


@asynccontextmanager
async def whatsapp() -> AsyncIterator[Stage]:
    async with whatsapp_server.WhatsAppServer() as server:
        secrets = {
            "WHATSAPP_TOKEN": whatsapp_server.TOKEN,
            "WHATSAPP_APP_SECRET": whatsapp_server.SECRET,
            "WHATSAPP_VERIFY_TOKEN": whatsapp_server.WORD,
        }
        fields = [f"api_url={server.url}", f"phone_id={whatsapp_server.PHONE}"]
        yield Stage(fields, secrets, "+1 555-078-3881")


@asynccontextmanager
async def matrix() -> AsyncIterator[Stage]:
    async with matrix_server.MatrixServer() as server:
        token = {"MATRIX_ACCESS_TOKEN": matrix_server.TOKEN}
        yield Stage([f"api_url={server.url}"], token, matrix_server.ME)


@asynccontextmanager
async def email() -> AsyncIterator[Stage]:
    async with MailServer() as server:
        fields = [
            *(f"address={ADDRESS}", "imap_host=127.0.0.1", "smtp_host=127.0.0.1", "tls=false"),
            *(f"imap_port={server.imap_port}", f"smtp_port={server.smtp_port}"),
        ]
        yield Stage(fields, {"EMAIL_PASSWORD": PASSWORD}, ADDRESS)


STAGES: dict[str, Callable[[], Any]] = {
    "telegram": telegram,
    "discord": discord,
    "slack": slack,
    "whatsapp": whatsapp,
    "signal": signal,
    "matrix": matrix,
    "email": email,
    "webhook": webhook,
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", STAGES)
async def test_only_what_the_platform_takes_is_kept_and_enabled(tmp_path: Path, name: str) -> None:
    env = command.environment(tmp_path, "http://127.0.0.1:9/v1")

    async def setup(stage: Stage, secrets: dict[str, str], *more: str) -> Any:
        given = [part for each in stage.settings for part in ("--set", each)]
        typed = "".join(f"{each}\n" for each in secrets.values())
        words = ("gateway", "setup", name, *given, *more)
        return await asyncio.to_thread(command.run, *words, env=env, cwd=tmp_path, stdin=typed)

    async with STAGES[name]() as stage:
        if stage.secrets:
            wrong = await setup(stage, dict.fromkeys(stage.secrets, "123:wrong"))
            assert wrong.returncode and len(wrong.stderr.strip().splitlines()) == 1, wrong
            assert wrong.stdout == "" and "123:wrong" not in wrong.stderr
        if stage.secrets and name != "webhook":
            none = await setup(stage, {})
            assert none.returncode == 2 and next(iter(stage.secrets)) in none.stderr
        assert not (tmp_path / ".env").exists() and not (tmp_path / "config.yaml").exists()
        done = await setup(stage, stage.secrets, "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["who"] == stage.who and told["enabled"] and told["checked"]
    kept = (tmp_path / ".env").read_text() if stage.secrets else ""
    assert all(f"{variable}=" in kept for variable in stage.secrets)
    assert not stage.secrets or (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    settings = yaml.safe_load((tmp_path / "config.yaml").read_text())["gateways"][name]
    assert settings["enabled"] is True
    assert not any(value in str(settings) for value in stage.secrets.values())
    # The platform is gone: what was set up stays as it is, and the sentence says what is wrong.
    gone = await setup(stage, {})
    assert gone.returncode == 1 and "cannot be reached" in gone.stderr, gone
    status = await asyncio.to_thread(command.run, "gateway", "status", env=env, cwd=tmp_path)
    line = next(each for each in status.stdout.splitlines() if each.startswith(name))
    assert line.split()[1:3] == ["stopped", "no"]


@pytest.mark.thorough
def test_a_messenger_without_its_token_is_incomplete_and_never_on(tmp_path: Path) -> None:
    env = command.environment(tmp_path, "http://127.0.0.1:9/v1")

    def said(*words: str, code: int = 0) -> str:
        done = command.run("gateway", *words, env=env, cwd=tmp_path)
        assert done.returncode == code, done
        return done.stdout + done.stderr

    (tmp_path / "config.yaml").write_text("gateways: {telegram: {enabled: true}, matrix: {enabled: true}}")
    told = said("status")
    assert "telegram   incomplete  TELEGRAM_BOT_TOKEN not set" in told
    assert "MATRIX_ACCESS_TOKEN, gateways.matrix.api_url not set" in told
    assert "incomplete" in said("setup") and "discord    off" in said("setup")
    assert "is not a setting" in said("setup", "telegram", "--set", "enabled=true", code=2)
    assert "names a variable" in said("setup", "telegram", "--set", "token_env=X", code=2)
    assert "There is no gateway 'pigeon'" in said("setup", "pigeon", code=2)
    assert "Telegram is off." in said("setup", "telegram", "--off")
    env["TELEGRAM_BOT_TOKEN"] = "1:from-the-shell"
    assert "has a wrong value: api_url" in said("setup", "telegram", "--set", "api_url=ftp://x", code=2)
    assert "Telegram is on, unchecked." in said("setup", "telegram", "--unchecked")


def test_a_messenger_whose_extra_is_missing_keeps_no_other_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run_service(_options: Any, _home: Any, ready: Any) -> None:
        ready("http://here")

    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.setenv("HERMES_WEBHOOK_SECRET", "secret")
    monkeypatch.setattr("app.cli.extend.extras.is_installed", lambda name: name != "telegram")
    monkeypatch.setattr("app.service.service.run_service", run_service)
    args = argparse.Namespace(action="run", port=0, demo=True)
    settings = {"telegram": {"enabled": True}, "webhook": {"enabled": True}}
    (tmp_path / "config.yaml").write_text(json.dumps({"gateways": settings}))
    gateway.run(args)
    said = capsys.readouterr()
    assert said.out.strip() == "hermes gateway: webhook (http://here)" and "extras add telegram" in said.err
    del settings["webhook"]
    (tmp_path / "config.yaml").write_text(json.dumps({"gateways": settings}))
    with pytest.raises(ConfigError, match="extras add telegram"):
        gateway.run(args)


def test_a_messenger_that_lacks_settings_is_not_said_to_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("gateways: {email: {enabled: true}}\n")
    done = command.run("gateway", "run", env=command.environment(home, ""), cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert "gateways.email.imap_host" in done.stderr and "gateway setup email`" in done.stderr
