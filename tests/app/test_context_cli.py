"""`hermes context` tells what the first request will hold, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli import context
from app.startup.command_line import build_parser
from tests.support.engines import bench
from tests.support.model_server import by_step, say


async def test_the_sum_is_the_first_request_within_two_percent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with bench(tmp_path, by_step([say("ok")])) as b:
        (b.workspace / "AGENTS.md").write_text("Use tabs, never spaces.\n\n" * 100)
        b.home.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(b.workspace)
        monkeypatch.setenv("HERMES_HOME", str(b.home))
        monkeypatch.setenv("OPENAI_BASE_URL", b.server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        table = context.as_json(await context._table(context.Home.locate(), "scripted"))
        await b.turn("?")
        body = b.server.requests[-1].body
        sent = sum(
            len(json.dumps(each, separators=(",", ":"), ensure_ascii=False).encode())
            for each in (body["tools"], body["messages"][0])
        )
        assert abs(table["tokens"] - sent / 4) <= 0.02 * sent / 4
        project = next(each for each in table["layers"] if each["layer"] == "Project")
        assert project["file"].endswith("AGENTS.md")
        assert (project["budget"], project["cut"], len(project["hash"])) == (8_000, False, 64)


def test_it_is_a_subcommand() -> None:
    args = build_parser(["context"]).parse_args(["context", "--json"])
    assert (args.command, args.as_json) == ("context", True)
