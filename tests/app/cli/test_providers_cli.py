"""`hermes providers`: adding, checking, showing and removing one, with a server that really answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.model.dialect_book import DialectBook
from agent.model.repairs import Repair
from tests.support import command
from tests.support.model_process import ServerProcess

KEY = "sk-providers-cli"
NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def _run(home: Path, *words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    env = command.environment(home, **more)
    return command.run("providers", *words, env=env, cwd=home.parent, stdin=stdin)


def _providers(home: Path) -> dict[str, Any]:
    return yaml.safe_load((home / "config.yaml").read_text())["providers"]


@pytest.mark.thorough
def test_a_server_with_a_key_is_added_checked_and_removed(home: Path, tmp_path: Path) -> None:
    with ServerProcess("script = []", tmp_path, options=["--api-key", KEY]) as server:
        bare = server.base_url.removesuffix("/v1")
        added = _run(home, "add", "my-work", "--url", bare, "--key-stdin", stdin=f"{KEY}\n")
        assert added.returncode == 0 and KEY not in added.stdout + added.stderr
        entry = {"base_url": server.base_url, "format": "chat", "api_key_env": "MY_WORK_API_KEY"}
        assert _providers(home)["my-work"] == entry
        assert f"MY_WORK_API_KEY={KEY}" in (home / ".env").read_text()
        assert (home / ".env").stat().st_mode & 0o777 == 0o600
        done = _run(home, "check", "my-work", "--json")
        found = json.loads(done.stdout)
        assert done.returncode == 0 and found["ok"] and found["models"] == ["test-model"]
        refused = _run(home, "check", "my-work", MY_WORK_API_KEY="sk-wrong")
        assert refused.returncode == 3 and "does not take this key (401)" in refused.stderr
        added = _run(
            home, "add", "keyless", "--url", server.base_url, "--format", "chat", "--key-env", "UNSET"
        )
        assert added.returncode == 0
        unset = _run(home, "check", "keyless")
        assert unset.returncode == 3 and "none was sent because UNSET is not set" in unset.stderr
        listed = _run(home, "check", "my-work", HERMES_MODEL="my-work/test-model")
        assert listed.returncode == 0 and "but not" not in listed.stdout
        missing = _run(home, "check", "my-work", HERMES_MODEL="my-work/other")
        assert (
            missing.returncode == 0
            and "names 1 model, but not other, which model.name asks" in missing.stdout
        )
    unreachable = _run(home, "check", "my-work")
    assert unreachable.returncode == 3 and "Cannot reach my-work" in unreachable.stderr
    assert _run(home, "remove", "my-work").returncode == 0
    rows = json.loads(_run(home, "list", "--json").stdout)
    assert "my-work" not in [row["name"] for row in rows]


@pytest.mark.thorough
def test_an_address_that_does_not_answer_is_kept_as_written_and_that_is_said(home: Path) -> None:
    done = _run(home, "add", "away", "--url", NOWHERE)
    assert done.returncode == 0 and "written as given" in done.stderr
    assert _providers(home)["away"] == {"base_url": NOWHERE}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "a", "--url", "nonsense"), "is not an address of an API"),
        (("add", "a", "--url", "ftp://host/v1"), "is not an address of an API"),
        (("add", "local", "--url", NOWHERE), "local is taken"),
        (("add", "a/b", "--url", NOWHERE), "The name of a provider"),
        (("add", "a", "--url", NOWHERE, "--key-env", "sk-secret-1"), "takes the name of a variable"),
        (("remove", "openai"), "built in and stays"),
        (("remove", "nobody"), "There is no provider 'nobody'"),
        (("check", "nobody"), "There is no provider 'nobody'"),
        (("forget", "nobody"), "There is no provider 'nobody'"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(words: tuple[str, ...], said: str, home: Path) -> None:
    done = _run(home, *words)
    assert done.returncode == 2 and said in done.stderr and "sk-secret" not in done.stderr
    assert not (home / "config.yaml").exists()


@pytest.mark.thorough
def test_a_name_is_taken_once(home: Path) -> None:
    assert _run(home, "add", "a", "--url", NOWHERE, "--format", "anthropic").returncode == 0
    again = _run(home, "add", "a", "--url", "https://other.example/v1", "--format", "chat")
    assert again.returncode == 2 and "The name a is taken" in again.stderr
    assert _providers(home) == {"a": {"base_url": NOWHERE, "format": "anthropic"}}


def test_the_key_of_a_built_in_provider_is_not_overwritten(home: Path) -> None:
    words = ("add", "openai", "--url", NOWHERE, "--format", "chat", "--key-stdin")
    done = _run(home, *words, stdin=KEY, OPENAI_API_KEY="sk-first")
    assert done.returncode == 2 and "another key already" in done.stderr and not (home / ".env").exists()


@pytest.mark.thorough
def test_a_dialect_of_the_person_s_that_cannot_be_used_is_named_where_one_looks(home: Path) -> None:
    (home / "dialects").mkdir(parents=True)
    (home / "dialects" / "mine.yaml").write_text("match: {providers: [ollama]}\ncall: {}\n")
    shown = _run(home, "show", "ollama")
    assert shown.returncode == 0 and "mine.yaml is not used: it has a mistake at 'call'" in shown.stderr


def test_what_was_learned_is_shown_and_forgotten(home: Path) -> None:
    spoken = DialectBook(home).of("ollama", "http://127.0.0.1:11434/v1", "small")
    spoken.learn([(Repair("merge_roles", {"roles": {"alternate": True}}), "roles must alternate")])
    assert [
        each["rule"] for each in json.loads(_run(home, "show", "ollama", "--json").stdout)["learned"]
    ] == ["merge_roles"]
    assert "roles must alternate" in _run(home, "show", "ollama").stdout
    assert "Forgot 1 thing about ollama." in _run(home, "forget", "ollama").stdout
    assert json.loads(_run(home, "show", "ollama", "--json").stdout)["learned"] == []


def test_without_an_action_every_provider_is_listed(home: Path) -> None:
    shown = _run(home)
    assert shown.returncode == 0 and "MOONSHOT_API_KEY is not set" in shown.stdout
