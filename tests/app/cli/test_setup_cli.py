"""`hermes setup` without a screen, and the help and errors of the command line."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from app import main as entry
from app.cli.command_line import SECTIONS, build_parser
from tests.support import command
from tests.support.model_process import ServerProcess

KEY = "sk-setup-cli"

WRONG = [
    ("--modle x", "There is no option --modle; did you mean `--model`?"),
    ("-p hi --aprove yolo", "There is no option --aprove; did you mean `--approve`?"),
    ("sesions", "Did you mean sessions?"),
    ("login", "Did you mean setup?"),
    ("exec hi", "There is no command 'exec'. Did you mean --prompt?"),
    ("run hi", "There is no command 'run'. Did you mean --prompt?"),
    ("--yolo -p hi", "There is no option --yolo; did you mean `--approve yolo`?"),
    ("--allowedTools web", "There is no option --allowedTools; did you mean `--tools`?"),
    ("-q hi", "There is no option -q; did you mean `--prompt`?"),
    ("--approve YOLO", "not 'YOLO'. Did you mean yolo?"),
    ("--model", "--model needs a value. Write it as `--model M`."),
    ("-p hi --bogus", "There is no option --bogus. See `"),
    ("--foo", "There is no option --foo. See `"),
    ("skins shwo", "has no action 'shwo'. Did you mean show?"),
    ("sessions list --jsn", "There is no option --jsn; did you mean `--json`?"),
    ("sessions list extra", "does not know what to do with 'extra'. See `"),
    ("sessions show", "SESSION is missing. Write it as `"),
    ("providers add x", "--url is missing."),
    ("doctor --fix", "There is no option --fix. See `"),
    ("doctor nosuch", "doctor` takes keys, not 'nosuch'."),
    ("batch", "batch` needs an action: run."),
    ("hooks trust nosuch", "does not know what to do with 'nosuch'."),
    ("--c", "may mean --"),
]


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_a_wrong_command_line_names_its_cause_and_one_next_step(
    line: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        entry.main(line.split())
    error = capsys.readouterr().err
    assert left.value.code == 2 and said in error and error.count("\n") == 1
    assert "choose from" not in error and "argument" not in error


@pytest.mark.parametrize("more", ["-p hi", "--json", "--plain", "--reader"])
def test_a_list_of_sessions_is_offered_only_where_there_is_a_screen(
    more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main([*more.split(), "--resume"]) == 2
    error = capsys.readouterr().err
    assert "--resume needs the id of a session here" in error and "sessions list` shows them all." in error


@pytest.mark.parametrize(
    "line",
    ["--prompt=--odd", "-p--odd", "mcp add a -- npx --yes", "permissions explain -- rm -rf x"],
)
def test_words_that_look_like_options_pass_where_they_are_none(line: str) -> None:
    words = line.split()
    assert build_parser(words).parse_args(words) is not None


def test_the_help_begins_with_three_examples_and_is_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = build_parser().format_help()
    lines = text.splitlines()
    examples = [line for line in lines[:10] if line.startswith("  hermes")]
    assert len(examples) == 3 and max(map(len, lines)) <= 80
    assert [line for line in lines if line in SECTIONS] == list(SECTIONS)
    assert "\x1b" not in text


def test_a_group_lists_its_actions_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("config", "skills", "agents", "skins", "permissions"):
        with pytest.raises(SystemExit):
            entry.main([name, "--help"])
        shown = capsys.readouterr().out
        assert len(re.findall(r"^  list\b|^  show\b", shown, re.MULTILINE)) in (1, 2) and "{" not in shown


def test_setup_without_a_terminal_says_what_to_run(tmp_path: Path) -> None:
    env = command.environment(tmp_path / "home")
    done = command.run("setup", env=env, cwd=tmp_path)
    assert done.returncode == 2 and "setup --provider" in done.stderr and done.stderr.count("\n") == 1
    ways = json.loads(command.run("setup", "--json", env=env, cwd=tmp_path).stdout)["ways"]
    assert {"key", "server", "name", "use"} <= {way["act"] for way in ways}


def test_setup_takes_an_address_a_key_and_a_model_from_a_script(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ServerProcess("script = []", tmp_path, options=["--api-key", KEY]) as server:
        env = command.environment(home)
        words = ("setup", "--url", server.base_url, "--key-stdin", "--json")
        refused = command.run(*words, env=env, cwd=tmp_path, stdin="sk-wrong\n")
        assert refused.returncode == 2 and "401" in refused.stderr and not (home / ".env").exists()
        done = command.run(*words, env=env, cwd=tmp_path, stdin=f"{KEY}\n")
        found = json.loads(done.stdout)
        assert done.returncode == 0 and found["model"].endswith("/test-model")
        assert KEY not in done.stdout + done.stderr and KEY in (home / ".env").read_text()
        assert yaml.safe_load((home / "config.yaml").read_text())["model"]["name"] == found["model"]
        answered = command.run("-p", "hello", env=env, cwd=tmp_path)
        assert "No model is chosen" not in answered.stderr


def test_setup_asks_line_by_line_on_a_terminal(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ServerProcess("script = []", tmp_path) as server:
        master, slave = pty.openpty()
        env = {**command.environment(home), "TERM": "xterm"}
        child = subprocess.Popen(
            [*command.HERMES, "setup"], env=env, cwd=tmp_path, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        shown = ""

        def until(text: str) -> None:
            nonlocal shown
            while text not in shown:
                shown += os.read(master, 4096).decode("utf-8", "replace")

        until("Number (empty leaves): ")
        number = re.search(r"(\d+)  Name a server", shown)
        assert number is not None and "Choose a model" in shown
        os.write(master, b"99\n")
        until("There is no '99'")
        os.write(master, number[1].encode() + b"\n")
        until("Address")
        os.write(master, server.base_url.encode() + b"\n")
        until("Its key")
        os.write(master, b"\n")
        until("test-model")
        until("or a name (empty leaves): ")
        os.write(master, b"1\n")
        until("New sessions begin with")
        assert child.wait() == 0
        os.close(master)
    assert "test-model" in (home / "config.yaml").read_text()
