"""Which model file is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.home import Home
from agent.errors import ConfigError
from agent.model.local.sources import SMALL, STANDARD, installed_files, model_file


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def put(home: Home, name: str) -> Path:
    home.models.mkdir(parents=True, exist_ok=True)
    path = home.models / name
    path.write_bytes(b"GGUF")
    return path


def test_without_a_model_the_command_that_fetches_one_is_named(home: Home) -> None:
    with pytest.raises(ConfigError, match="hermes model pull"):
        model_file(home)


def test_the_larger_known_model_is_preferred(home: Home) -> None:
    put(home, "a-model-of-the-user.gguf")
    put(home, SMALL.file)
    best = put(home, STANDARD.file)
    assert model_file(home) == best


def test_an_own_model_in_the_folder_is_found(home: Home) -> None:
    own = put(home, "b.gguf")
    put(home, "c.gguf")
    assert model_file(home) == own


def test_an_unfinished_download_is_no_model(home: Home) -> None:
    put(home, f"{STANDARD.file}.part")
    assert installed_files(home) == []


def test_a_configured_path_wins(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home, STANDARD.file)
    own = tmp_path / "own.gguf"
    own.write_bytes(b"GGUF")
    assert model_file(home, str(own)) == own
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_file(home, "~/own.gguf") == own
    monkeypatch.chdir(tmp_path)
    assert model_file(home, "own.gguf") == own


@pytest.mark.parametrize("setting", ["/no/such/file.gguf", "/", "\0", "~nobody-of-that-name/x", "x" * 5_000])
def test_a_path_that_cannot_be_used_is_one_sentence(home: Home, setting: str) -> None:
    with pytest.raises(ConfigError):
        model_file(home, setting)
