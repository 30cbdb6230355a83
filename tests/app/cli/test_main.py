"""The command line itself: help, version, faults of ours."""

from __future__ import annotations

import errno
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from app import main as entry
from app.cli.command_line import SUBCOMMANDS, build_parser
from tests.support import command


@pytest.mark.thorough
def test_help_and_version_need_neither_home_nor_model(tmp_path: Path) -> None:
    env = command.environment(tmp_path / "home")
    shown = command.run("--help", env=env, cwd=tmp_path)
    assert shown.returncode == 0
    for name in (*SUBCOMMANDS, "--prompt", "--json", "--approve", "--continue"):
        assert name in shown.stdout
    assert command.run("--version", env=env, cwd=tmp_path).stdout.startswith("hermes ")
    assert not (tmp_path / "home").exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", sorted(SUBCOMMANDS))
def test_every_subcommand_explains_itself(name: str, tmp_path: Path) -> None:
    shown = command.run(name, "--help", env=command.environment(tmp_path / "home"), cwd=tmp_path)
    assert shown.returncode == 0
    assert f"hermes {name}" in shown.stdout


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sessions --json", "sessions list --json"),
        ("sessions --limit=3 --json", "sessions list --limit 3 --json"),
        ("config --json --defaults", "config show --json --defaults"),
        ("checkpoints --json", "checkpoints status --json"),
        ("skills", "skills list"),
        ("skills uninstall x", "skills remove x"),
        ("plugin remove x", "plugin uninstall x"),
        ("sessions remove x", "sessions delete x"),
        ("cron delete x", "cron remove x"),
        ("cron create 1h x", "cron add 1h x"),
    ],
)
def test_a_group_without_an_action_lists_with_its_options_and_takes_both_words_for_one_action(
    typed: str, meant: str
) -> None:
    read = [vars(build_parser(line.split()).parse_args(line.split())) for line in (typed, meant)]
    assert read[0] == read[1]


def test_an_option_that_the_list_does_not_have_is_refused_for_the_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        build_parser(["sessions"]).parse_args(["sessions", "--title"])
    assert "There is no option --title. See `" in (said := capsys.readouterr().err)
    assert "sessions --help`" in said


def test_a_fault_of_ours_is_a_sentence_and_the_details_are_in_a_private_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import app.cli.sessions.oneshot

    def broken(_args: object) -> int:
        raise RuntimeError("\x1b[31mred alert")

    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(app.cli.sessions.oneshot, "run", broken)
    assert entry.main(["-p", "x"]) == 1
    shown = capsys.readouterr().err
    assert "RuntimeError: red alert" in shown
    assert "\x1b" not in shown
    assert "Traceback" not in shown
    log = tmp_path / "home" / "logs" / "hermes.log"
    assert "Traceback" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_another_ctrl_c_ends_the_program_without_a_traceback() -> None:
    pressed = "os.kill(os.getpid(), signal.SIGINT)"
    program = f"import os, signal, sys; sys.path.insert(0, {str(command.ROOT)!r}); import app.main as entry; "
    program += f"entry._run = lambda _: {pressed}; print(entry.main([]), flush=True); {pressed}"
    done = subprocess.run([*command.HERMES[:-1], program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "130\n", "")


@pytest.mark.parametrize(("name", "what"), [("/var/x", "/var/x"), (None, "The output")])
def test_a_full_disk_is_named_by_what_could_not_be_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str | None,
    what: str,
) -> None:
    import app.cli.sessions.oneshot

    def full(_args: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", name)

    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(app.cli.sessions.oneshot, "run", full)
    monkeypatch.setattr(entry, "_drop_output", lambda: None)
    assert entry.main(["-p", "x"]) == 1
    assert capfd.readouterr().err == f"hermes: {what} cannot be written: No space left on device.\n"


@pytest.mark.parametrize("input_of", ["/dev/null", "/dev/zero"])
def test_an_editor_that_is_a_device_is_refused(tmp_path: Path, input_of: str) -> None:
    with open(input_of, "rb") as device:
        done = subprocess.run(
            [*command.HERMES, "acp"],
            stdin=device,
            capture_output=True,
            env=command.environment(tmp_path / "home"),
            cwd=tmp_path,
            timeout=100,
            check=False,
        )
    assert done.returncode == 2 and b"pipes or sockets" in done.stderr
