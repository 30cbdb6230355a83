"""`hermes -p` as a real process against a scripted model: output, exit codes, crashes."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.model.demo import FILE
from app.cli.sessions import oneshot
from tests.support import command
from tests.support.kill_storm import SCRIPT, kill_and_resume
from tests.support.model_process import ServerProcess
from tests.support.project import ANSWER, TASK, is_mended, make_project

GREETING = "script = by_step([say('Hello there.'), say('Again.')])"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="module")
def greeting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A model that looks at the conversation only, so it serves every test that wants to be greeted."""
    with ServerProcess(GREETING, tmp_path_factory.mktemp("model")) as server:
        yield server.base_url


@pytest.mark.thorough
def test_the_answer_goes_to_stdout_and_nothing_else(work: Path, home: Path, greeting: str) -> None:
    done = command.run("-p", "hi", env=command.environment(home, greeting), cwd=work)
    assert (done.returncode, done.stdout) == (0, "Hello there.\n")


@pytest.mark.thorough
def test_the_demo_works_where_its_steps_can_be_undone(work: Path, home: Path) -> None:
    done = command.run(
        "-p", "a tour", "--demo", "--json", "--approve", "all", env=command.environment(home), cwd=work
    )
    seen = command.events(done.stdout)
    written = home.parent / "home-demo" / FILE
    assert "See you soon." in written.read_text()
    assert not [event for event in seen if event["type"] == "notice"]
    undone = command.run(
        "rollback", "--to", "0", "--yes", env=command.environment(home), cwd=home.parent / "home-demo"
    )
    assert (undone.returncode, written.exists()) == (0, False)


@pytest.mark.thorough
def test_json_is_one_event_a_line_from_session_opened_to_turn_ended(
    work: Path, home: Path, greeting: str
) -> None:
    done = command.run("-p", "hi", "--json", env=command.environment(home, greeting), cwd=work)
    seen = command.events(done.stdout)
    assert seen[0]["type"] == "session_opened"
    assert seen[-1]["type"] == "turn_ended"
    assert seen[-1]["outcome"] == "done"
    assert seen[-1]["text"] == "Hello there."
    assert seen[-1]["session"] == seen[0]["session"]
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    assert done.stderr == ""


@pytest.mark.thorough
def test_the_text_may_come_from_stdin(work: Path, home: Path, greeting: str) -> None:
    done = command.run("--json", env=command.environment(home, greeting), cwd=work, stdin="what is this?\n")
    texts = [event["text"] for event in command.events(done.stdout) if event["type"] == "user_message"]
    assert texts == ["what is this?\n"]


@pytest.mark.thorough
def test_stdin_is_material_for_the_text(work: Path, home: Path, greeting: str) -> None:
    done = command.run(
        "-p", "explain", "--json", env=command.environment(home, greeting), cwd=work, stdin="line\n"
    )
    texts = [event["text"] for event in command.events(done.stdout) if event["type"] == "user_message"]
    assert texts == ["explain\n\nline\n"]


@pytest.mark.skipif(not Path("/proc/self/fdinfo").exists(), reason="this system does not say who writes")
def test_a_pipe_that_its_starter_never_writes_to_does_not_hold_up_a_task(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(oneshot, "SILENCE", 0.01)
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "w"):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert oneshot.message_of("go", ()) == "go"
    assert "Nothing comes on stdin" in capsys.readouterr().err


def test_a_program_in_a_pipeline_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(oneshot, "SILENCE", 0.01)
    reading, writing = os.pipe()
    order = ["sh", "-c", "read go; echo late"]
    with subprocess.Popen(order, stdin=subprocess.PIPE, stdout=writing, text=True) as slow:
        os.close(writing)
        read_stdin = oneshot.read_stdin

        def read_released() -> str:
            assert slow.stdin is not None and "Waiting for the text" in capsys.readouterr().err
            slow.stdin.write("go\n")
            slow.stdin.close()
            return read_stdin()

        monkeypatch.setattr(oneshot, "read_stdin", read_released)
        with os.fdopen(reading) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert oneshot.message_of("go", ()) == "go\n\nlate\n"


@pytest.mark.thorough
def test_nothing_to_do_is_a_usage_error(work: Path, home: Path) -> None:
    done = command.run("-p", "  ", env=command.environment(home), cwd=work)
    assert done.returncode == 2
    assert "nothing to do" in done.stderr


@pytest.mark.thorough
def test_without_a_model_the_ways_on_are_explained(work: Path, home: Path) -> None:
    done = command.run("-p", "hi", env=command.environment(home), cwd=work)
    assert done.returncode == 2
    assert "hermes model pull" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 5
    assert not (home / "state.db").exists()


@pytest.mark.thorough
def test_an_unreachable_model_is_exit_code_3(work: Path, home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("model: {retries: 0}\n")
    done = command.run("-p", "hi", env=command.environment(home, "http://127.0.0.1:9/v1"), cwd=work)
    assert done.returncode == 3
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_a_refused_action_is_exit_code_4(work: Path, home: Path, tmp_path: Path) -> None:
    (work.parent / "kept").touch()
    script = "script = by_step([call('terminal', command='rm ../kept'), say('Not allowed.')])"
    with ServerProcess(script, tmp_path) as server:
        done = command.run("-p", "hi", env=command.environment(home, server.base_url), cwd=work)
    assert done.returncode == 4
    assert done.stdout == "Not allowed.\n"
    # The command stands between quotes where there is a blank in its path.
    assert done.stderr.replace("hermes' ", "hermes ").endswith(
        "hermes permissions allow 'terminal(rm ../kept)'\n"
    )
    assert "--approve" not in done.stderr
    assert (work.parent / "kept").exists()


@pytest.mark.thorough
def test_a_denied_command_names_the_rule_that_allows_just_it(work: Path, home: Path, tmp_path: Path) -> None:
    script = "script = by_step([call('terminal', command='git push origin main'), say('Not allowed.')])"
    with ServerProcess(script, tmp_path) as server:
        env = command.environment(home, server.base_url)
        done = command.run("-p", "hi", env=env, cwd=work)
        assert done.returncode == 4
        assert "permissions allow 'terminal(git push *)'" in done.stderr and "--approve" not in done.stderr
        rule = ("permissions", "allow", "terminal(git push *)", "--yes")
        assert command.run(*rule, env=env, cwd=work).returncode == 0
        again = command.run("-p", "hi", env=env, cwd=work)
    assert again.returncode == 0, again.stderr


@pytest.mark.thorough
def test_what_a_hook_refused_is_not_told_to_be_allowed(work: Path, home: Path, tmp_path: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    hooks = [{"command": 'echo \'{"decision": "block", "reason": "not on Friday"}\''}]
    (home / "config.yaml").write_text(json.dumps({"hooks": {"before_tool": hooks}}))
    script = "script = by_step([call('terminal', command='touch a'), say('Not allowed.')])"
    with ServerProcess(script, tmp_path) as server:
        env = command.environment(home, server.base_url)
        assert command.run("hooks", "trust", "--yes", env=env, cwd=work).returncode == 0
        done = command.run("-p", "hi", env=env, cwd=work)
    assert done.returncode == 4
    assert "not on Friday" in done.stderr and "permissions allow" not in done.stderr


@pytest.mark.thorough
def test_a_broken_settings_file_is_named_before_the_model_that_is_missed(work: Path, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text("model:\n  name: [unclosed\n")
    done = command.run("-p", "hi", env=command.environment(home, ""), cwd=work)
    assert done.returncode == 2
    assert done.stderr.startswith("hermes: config.yaml line ") and "No model is chosen" in done.stderr


@pytest.mark.thorough
def test_what_is_refused_although_all_is_approved_is_not_told_to_be_approved(
    work: Path, home: Path, tmp_path: Path
) -> None:
    script = "script = by_step([call('write_file', path='new', content='x'), say('Not allowed.')])"
    (home / "audit").mkdir(parents=True)
    (home / "audit" / "audit-000001.jsonl").mkdir()
    with ServerProcess(script, tmp_path) as server:
        env = command.environment(home, server.base_url)
        done = command.run("--approve", "all", "-p", "hi", env=env, cwd=work)
    assert done.returncode == 4
    assert "audit-000001.jsonl is not a plain file" in done.stderr
    assert done.stderr.endswith("an action was denied, for the reasons above.\n")
    assert not (work / "new").exists()


@pytest.mark.thorough
def test_ctrl_c_stops_the_command_and_is_exit_code_130(work: Path, home: Path, tmp_path: Path) -> None:
    script = "script = by_step([call('terminal', command='echo go; sleep 300'), say('x')])"
    with ServerProcess(script, tmp_path) as server:
        process = subprocess.Popen(
            [*command.HERMES, "-p", "hi", "--json", "--approve", "all"],
            env=command.environment(home, server.base_url),
            cwd=work,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["type"] == "tool_progress":
                break
        os.kill(process.pid, signal.SIGINT)
        rest = process.stdout.read()
        process.wait()
        process.stdout.close()
    assert process.returncode == 130
    last = command.events(rest)[-1]
    assert (last["type"], last["outcome"]) == ("turn_ended", "interrupted")


@pytest.mark.thorough
def test_commands_hear_ctrl_c_even_where_hermes_was_started_without(
    work: Path, home: Path, tmp_path: Path
) -> None:
    ask = f"{shlex.quote(sys.executable)} -c 'import signal; print(signal.getsignal(signal.SIGINT).__name__)'"
    script = f"script = by_step([call('terminal', command={ask!r}), say('x')])"
    with ServerProcess(script, tmp_path) as server:
        done = subprocess.run(
            ["sh", "-c", 'trap "" INT; exec "$@" -p hi --json --approve all', "sh", *command.HERMES],
            env=command.environment(home, server.base_url),
            cwd=work,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    finished = next(event for event in command.events(done.stdout) if event["type"] == "tool_finished")
    assert "default_int_handler" in finished["result"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "arguments",
    [
        ["--resume", "nothing-like-this", "-p", "x"],
        ["--continue", "-p", "x"],
        ["--continue", "--resume", "a", "-p", "x"],
        ["--max-turns", "0", "-p", "x"],
        ["--approve", "maybe", "-p", "x"],
        ["--cwd", "no/such/folder", "-p", "x"],
        ["frobnicate"],
    ],
)
def test_wrong_arguments_get_one_sentence(arguments: list[str], work: Path, home: Path) -> None:
    done = command.run(*arguments, env=command.environment(home, "http://127.0.0.1:9/v1"), cwd=work)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert done.stderr.startswith("hermes")
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_a_project_of_the_same_package_names_does_not_get_in_the_way(
    work: Path, home: Path, greeting: str
) -> None:
    for name in ("app", "agent", "tools", "tests"):
        (work / name).mkdir()
        (work / name / "__init__.py").write_text("raise SystemExit('the project was imported')\n")
    env = command.environment(home, greeting, PYTHONPATH=str(work))
    plain = [argument for argument in command.HERMES if argument != "-I"]
    done = subprocess.run(
        [*plain, "-p", "hi"], env=env, cwd=work, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "Hello there.\n")


@pytest.fixture(scope="module")
def engineer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A model that carries out the task of twelve steps."""
    with ServerProcess(SCRIPT, tmp_path_factory.mktemp("engineer")) as server:
        yield server


@dataclass(frozen=True)
class Undisturbed:
    """The task, carried out once."""

    done: subprocess.CompletedProcess[str]
    project: Path
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, engineer: ServerProcess) -> Undisturbed:
    folder = tmp_path_factory.mktemp("undisturbed")
    project, env = make_project(folder / "project"), command.environment(folder / "home", engineer.base_url)
    began = time.monotonic()
    done = command.run("-p", TASK, "--json", "--approve", "all", env=env, cwd=project)
    return Undisturbed(done, project, time.monotonic() - began)


@pytest.mark.thorough
def test_a_twelve_step_task_is_carried_out_on_a_real_project(
    engineer: ServerProcess, undisturbed: Undisturbed
) -> None:
    seen = command.events(undisturbed.done.stdout)
    assert (undisturbed.done.returncode, seen[-1]["text"]) == (0, ANSWER)
    assert is_mended(undisturbed.project)
    assert not [request for request in engineer.requests() if request["refused"]]
    calls = [event for event in seen if event["type"] == "tool_finished"]
    assert [call["outcome"] for call in calls] == ["done"] * 12
    runs = [json.loads(call["result"])["output"] for call in calls if call["tool"] == "terminal"]
    assert ["FAILED" in output for output in runs] == [True, True, False]
    assert not [event for event in seen if event["type"] == "prefix_broken"]


@pytest.mark.parametrize(
    "kills", [2, pytest.param(12, marks=[pytest.mark.thorough, pytest.mark.timeout(900)])]
)
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(
    tmp_path: Path, kills: int, engineer: ServerProcess, undisturbed: Undisturbed
) -> None:
    chance = random.Random(7)
    for number in range(kills):
        folder = tmp_path / str(number)
        folder.mkdir()
        # Each in a stretch of its own, so that few of them also look at all of the task.
        moment = (number + chance.random()) * undisturbed.seconds / kills
        kill = kill_and_resume(folder, engineer.base_url, moment)
        assert (kill.lost, kill.integrity, kill.finished) == (0, "ok", True), kill


@pytest.mark.thorough
@pytest.mark.parametrize("shut", ["<&-", ">&-", "2>&-"])
def test_a_closed_standard_stream_is_no_fault(shut: str, work: Path, home: Path, greeting: str) -> None:
    line = " ".join([*map(shlex.quote, command.HERMES), "-p", "hi", shut])
    done = subprocess.run(
        ["sh", "-c", line],
        env=command.environment(home, greeting),
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "Internal error" not in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("flags", [["-p", "hi"], ["-p", "hi", "--json"], ["--help"], ["sessions", "list"]])
def test_a_full_disk_behind_stdout_is_one_sentence(
    flags: list[str], work: Path, home: Path, greeting: str
) -> None:
    line = [*command.HERMES, *flags]
    env = command.environment(home, greeting)
    with open("/dev/full", "w") as full:
        done = subprocess.run(line, env=env, cwd=work, stdout=full, stderr=-1, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "cannot be written" in done.stderr


@pytest.mark.parametrize(("arguments", "named"), [("-p hi", "--cwd"), ("mcp list", "go to another one")])
def test_a_working_folder_that_is_gone_is_one_sentence(
    arguments: str, named: str, work: Path, home: Path, greeting: str
) -> None:
    line = " ".join(["rmdir", '"$PWD";', *map(shlex.quote, command.HERMES), arguments])
    env = command.environment(home, greeting)
    done = subprocess.run(["sh", "-c", line], env=env, cwd=work, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "current folder is gone" in done.stderr and named in done.stderr


@pytest.mark.sample(1)
@pytest.mark.parametrize("arguments", [[], ["-p", "hi"]])
def test_an_input_that_cannot_be_read_is_one_sentence(
    arguments: list[str], work: Path, home: Path, greeting: str
) -> None:
    line = [*command.HERMES, *arguments]
    env = command.environment(home, greeting)
    with open(home.parent / "written", "w") as written:
        done = subprocess.run(
            line, env=env, cwd=work, stdin=written, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and "stdin cannot be read" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "cp1252"])
def test_an_answer_that_the_output_cannot_encode_is_printed_all_the_same(
    encoding: str, work: Path, home: Path, tmp_path: Path
) -> None:
    script = "script = by_step([say('h\\u00e9llo \\u2713 \\u65e5\\u672c')])"
    with ServerProcess(script, tmp_path) as server:
        environ = command.environment(home, server.base_url, PYTHONIOENCODING=encoding)
        run = [sys.executable, "-c", command.START, "-p", "hi"]
        done = subprocess.run(run, capture_output=True, cwd=work, env=environ, timeout=100, check=False)
    assert (done.returncode, done.stdout.decode(encoding).rstrip("\n")[1:].replace("é", "?")) == (
        0,
        "?llo ? ??",
    )
    assert b"Error" not in done.stderr


@pytest.mark.thorough
def test_a_prompt_without_a_text_is_what_is_piped_in(work: Path, home: Path, greeting: str) -> None:
    environ = command.environment(home, greeting)
    done = command.run("-p", "--json", env=environ, cwd=work, stdin="from the pipe\n")
    texts = [event["text"] for event in command.events(done.stdout) if event["type"] == "user_message"]
    assert texts == ["from the pipe\n"]


@pytest.mark.thorough
def test_control_bytes_of_a_piped_text_do_not_reach_the_model(work: Path, home: Path, greeting: str) -> None:
    piped = "one\0two \x1b[31mred\x1b[0m\n"
    done = command.run("-p", "x", "--json", env=command.environment(home, greeting), cwd=work, stdin=piped)
    texts = [event["text"] for event in command.events(done.stdout) if event["type"] == "user_message"]
    assert texts == ["x\n\nonetwo red\n"]


@pytest.mark.thorough
def test_an_image_that_a_message_names_goes_with_it(work: Path, home: Path, greeting: str) -> None:
    (work / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    done = command.run("-p", "see @dot.png", "--json", env=command.environment(home, greeting), cwd=work)
    sent = [event for event in command.events(done.stdout) if event["type"] == "user_message"]
    assert [each["name"] for each in sent[0]["attachments"]] == ["dot.png"]
