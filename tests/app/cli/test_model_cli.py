"""`hermes model`: fetching, listing and removing, with a small file in the place of the weights."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.model.local import sources as catalogue
from app.main import main
from tests.agent.model.local.hub import Hub, serving
from tests.agent.model.local.test_pull import CONTENT, WEIGHTS

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalogue, "STANDARD", WEIGHTS)
    monkeypatch.setattr(catalogue, "CATALOGUE", (WEIGHTS, catalogue.SMALL))
    return Home(tmp_path / "home")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving(Hub(CONTENT)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.base)
        yield hub


def put(home: Home, name: str, content: bytes = b"GGUF") -> Path:
    home.models.mkdir(parents=True, exist_ok=True)
    path = home.models / name
    path.write_bytes(content)
    return path


def test_pull_fetches_and_tells_where_it_comes_from(
    home: Home, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", "pull", "--source", "hub"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{home.models / WEIGHTS.file}\n"
    assert (home.models / WEIGHTS.file).read_bytes() == CONTENT
    assert "Apache-2.0" in err
    assert "SHA-256" in err
    assert "Fetching 100 %" in err
    assert "Verifying 100 %" in err
    assert "small model" in err


def test_a_failed_pull_has_an_exit_code_and_a_sentence(
    home: Home, hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.status = 404
    assert main(["model", "pull", "--source", "hub"]) == 1
    assert "404" in capsys.readouterr().err


@pytest.mark.thorough
def test_ctrl_c_leaves_a_state_that_can_be_resumed(home: Home, hub: Hub) -> None:
    hub.stall_after = 50_000
    script = textwrap.dedent("""
        import sys
        from agent.model.local import sources
        from app.main import main
        from tests.agent.model.local.test_pull import WEIGHTS

        sources.STANDARD = WEIGHTS
        sys.exit(main(["model", "pull", "--source", "hub"]))
    """)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, env=environ
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(("Fetching 1", "Fetching 2", "Fetching 3", "Fetching 4")):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(60) == 130
    assert "run the same command again" in rest
    assert "Traceback" not in rest
    hub.released.set()
    hub.stall_after = 0
    kept = (home.models / f"{WEIGHTS.file}.part").stat().st_size
    assert 0 < kept < len(CONTENT)
    assert main(["model", "pull", "--source", "hub"]) == 0
    assert hub.asked[-1].startswith(f"bytes={kept}-")
    assert (home.models / WEIGHTS.file).read_bytes() == CONTENT


def test_list_marks_the_model_in_use_and_names_what_can_be_fetched(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    put(home, "own.gguf")
    assert main(["model", "list"]) == 0
    out = capsys.readouterr().out
    assert "* own.gguf" in out
    assert "hermes model pull --small" in out
    assert main(["model", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {"name": "own.gguf", "size": 4, "installed": True, "used": True}
    assert [row["installed"] for row in rows[1:]] == [False, False]


def test_list_works_in_an_empty_home(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "list"]) == 0
    assert WEIGHTS.file in capsys.readouterr().out
    assert not home.models.exists()


def test_list_survives_a_configured_model_that_is_gone(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    home.root.mkdir()
    home.config.write_text("local:\n  model: /gone/away.gguf\n")
    assert main(["model", "list"]) == 0
    out, err = capsys.readouterr()
    assert WEIGHTS.file in out
    assert "/gone/away.gguf" in err


def test_a_configured_model_is_the_one_in_use(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "mine.gguf"
    own.write_bytes(b"GGUF")
    put(home, "other.gguf")
    home.config.write_text(f"local:\n  model: {own}\n")
    assert main(["model", "path"]) == 0
    assert capsys.readouterr().out == f"{own}\n"
    assert main(["model", "list"]) == 0
    assert "* mine.gguf" in capsys.readouterr().out


def test_path_without_a_model_names_the_mend(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "path"]) == 2
    # The line as it works here: a path with a blank is quoted.
    assert re.search(r"hermes'? model pull", capsys.readouterr().err)


def test_remove_deletes_a_model_and_its_unfinished_part(home: Home) -> None:
    model = put(home, "own.gguf")
    part = put(home, "own.gguf.part")
    assert main(["model", "remove", "own.gguf"]) == 0
    assert not model.exists()
    assert not part.exists()
    part = put(home, "half.gguf.part")
    assert main(["model", "remove", "half.gguf"]) == 0
    assert not part.exists()


@pytest.mark.parametrize("name", ["none.gguf", "../config.yaml", "/etc/passwd", "..", "", "../../victim"])
def test_remove_touches_nothing_outside_the_models(home: Home, tmp_path: Path, name: str) -> None:
    put(home, "own.gguf")
    victim = tmp_path / "victim.part"
    victim.write_text("precious")
    home.config.write_text("")
    assert main(["model", "remove", name]) == 2
    assert victim.exists()
    assert home.config.exists()


def test_a_name_with_control_bytes_reaches_no_terminal(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    put(home, "a\x1b]0;owned\x07.gguf")
    assert main(["model", "list"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_without_an_action_the_usage_is_told(home: Home) -> None:
    assert main(["model"]) == 0
