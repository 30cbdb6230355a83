"""`hermes doctor`: each check by itself, and all of them together."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.core.store.schema import APPLICATION_ID
from app.cli import doctor
from app.cli.health import checks
from app.cli.health.check import HealthFinding, HealthSubject, examine, output_of
from app.main import main


@pytest.fixture
def subject(tmp_path: Path) -> HealthSubject:
    root = tmp_path / "home"
    root.mkdir(mode=0o700)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return HealthSubject(Home(root), {"TERM": "xterm-256color"}, workspace)


def program(folder: Path, name: str, script: str) -> None:
    """An executable script called `name`."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


# --- all together


def test_a_check_that_fails_or_hangs_spoils_no_other(subject: HealthSubject) -> None:
    never = threading.Event()

    def broken(_subject: HealthSubject) -> HealthFinding:
        raise RuntimeError("oh")

    def hanging(_subject: HealthSubject) -> HealthFinding:
        never.wait(20)
        return HealthFinding("hanging", "ok", "at last")

    def fine(_subject: HealthSubject) -> HealthFinding:
        return HealthFinding("", "ok", "yes")

    found = examine({"hanging": hanging, "broken": broken, "fine": fine}, subject, 0.5)
    never.set()
    assert [(finding.name, finding.state) for finding in found] == [
        ("hanging", "warn"),
        ("broken", "fail"),
        ("fine", "ok"),
    ]
    assert "no answer" in found[0].detail and "RuntimeError: oh" in found[1].detail


def test_every_line_has_a_mark_words_and_the_mend_below() -> None:
    found = [
        HealthFinding("a", "ok", "fine"),
        HealthFinding("long", "warn", "hm", "Do it."),
        HealthFinding("b", "fail", "no"),
    ]
    assert doctor.lines(found) == [
        "✓ a     fine",
        "▲ long  hm",
        "        → Do it.",
        "✗ b     no",
        "",
        "1 failed, 1 to look at, 1 in order",
    ]
    told = HealthFinding("a", "warn", "first second third fourth", "some extras add semantic")
    assert doctor.lines([told], columns=25)[:4] == [
        "▲ a  first second third",
        "     fourth",
        "     → some extras add",
        "       semantic",
    ]
    assert doctor.lines(found[:1])[-1] == "Everything is in order."
    assert all(line.isascii() for line in doctor.lines(found, glyphs=False))


@pytest.mark.sample(1)
@pytest.mark.parametrize("broken", [False, True])
def test_the_command_prints_json_and_exits_with_1_only_when_something_fails(
    subject: HealthSubject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: bool
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(subject.home.root))
    monkeypatch.setenv("HERMES_MODEL", "demo")
    monkeypatch.chdir(subject.workspace)
    if broken:
        subject.home.database.write_text(
            "no database at all, and quite long for a header of one hundred bytes" * 2
        )
    code = main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in found] == list(doctor.checks())
    assert all(set(entry) == {"name", "state", "detail", "mend"} for entry in found)
    assert {entry["name"]: entry["state"] for entry in found}["store"] == ("fail" if broken else "ok")
    assert code == (1 if any(entry["state"] == "fail" for entry in found) else 0)
    assert code == int(broken), found


def test_nothing_is_changed_by_looking(subject: HealthSubject) -> None:
    examine(doctor.checks(), subject, 10)
    assert list(subject.home.root.iterdir()) == []


# --- the machine


def test_the_interpreter_and_its_sqlite_are_fit(subject: HealthSubject) -> None:
    assert checks.python(subject).state == "ok"
    found = checks.sqlite(subject)
    assert found.state == "ok" and found.detail.startswith(sqlite3.sqlite_version)
    first, last = checks.WAL_FAULT
    assert ("rollback journal" in found.detail) is (first <= sqlite3.sqlite_version_info <= last)


@pytest.mark.parametrize("check", [checks.git, checks.ripgrep])
def test_a_program_is_really_run(
    subject: HealthSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check
) -> None:
    name = {"git": "git", "ripgrep": "rg"}[check.__name__]
    monkeypatch.setattr(checks.sysconfig, "get_path", lambda _name: str(tmp_path / "nowhere"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    assert (check(subject).state, check(subject).detail) == ("warn", "not found")
    program(tmp_path / "bin", name, "echo ripgrep git version 9.9; exit 0")
    assert check(subject).state == "ok" and "9.9" in check(subject).detail
    program(tmp_path / "bin", name, "echo wrong libc >&2; exit 127")
    assert check(subject).state == "warn" and "wrong libc" in check(subject).detail
    (tmp_path / "bin" / name).write_bytes(b"\x7fELF nonsense")
    assert check(subject).state == "warn" and check(subject).mend


def test_a_program_that_does_not_end_is_killed(tmp_path: Path) -> None:
    program(tmp_path, "slow", f"exec {shutil.which('sleep')} 30")
    assert output_of([tmp_path / "slow"], 0.2) == (124, "it did not end")


@pytest.mark.parametrize(
    ("variables", "state_", "words"),
    [
        ({"TERM": "dumb"}, "warn", "TERM is dumb"),
        ({}, "warn", "TERM is not set"),
        ({"TERM": "xterm-256color"}, "ok", "256 colours"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "ok", "16 million"),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "ok", "no colours"),
    ],
)
def test_the_terminal_is_described(
    subject: HealthSubject,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    state_: str,
    words: str,
) -> None:
    monkeypatch.setattr(checks.locale, "getpreferredencoding", lambda _do_setlocale: "UTF-8")
    found = checks.terminal(HealthSubject(subject.home, variables, subject.workspace))
    assert (found.state, words in found.detail) == (state_, True), found


def test_a_locale_without_unicode_is_worth_a_look(
    subject: HealthSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks.locale, "getpreferredencoding", lambda _do_setlocale: "ANSI_X3.4-1968")
    found = checks.terminal(subject)
    assert found.state == "warn" and "LANG" in found.mend


def test_the_disk_is_looked_at_even_before_the_home_exists(tmp_path: Path) -> None:
    found = checks.disk(HealthSubject(Home(tmp_path / "a" / "b"), {}, tmp_path))
    assert str(tmp_path) in found.detail and "GB free" in found.detail


def test_the_sandbox_is_probed_by_doing(
    subject: HealthSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks.landlock_abi() >= 0
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    assert "bubblewrap is not installed" in checks.sandbox(subject).detail
    program(tmp_path / "bin", "bwrap", "echo 'bwrap: No permissions to create new namespace'; exit 1")
    found = checks.sandbox(subject)
    assert found.state == "warn" and "No permissions" in found.detail
    program(tmp_path / "bin", "bwrap", "exit 0")
    assert checks.sandbox(subject).state == "ok"


def test_what_commands_reach_is_told(subject: HealthSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.safety.sandbox import filtered
    from agent.safety.sandbox.opening import probe

    subject.home.root.mkdir(parents=True, exist_ok=True)
    found = checks.network(subject)
    if probe().name == "bubblewrap":
        assert (found.state, found.detail) == ("ok", "commands reach listed hosts; others ask, one at a time")
        monkeypatch.setattr(filtered, "_PROGRAMS", "/nowhere")
        found = checks.network(subject)
        assert found.state == "warn" and "nsenter (of util-linux) is not installed" in found.detail
    subject.home.config.write_text("sandbox:\n  network: 'off'\n")
    assert checks.network(subject).detail == "sandbox.network: off" or probe().name == "none"
    subject.home.config.write_text("sandbox:\n  mode: 'off'\n")
    assert "reach every host" in checks.network(subject).detail


# --- what Hermes keeps


def test_a_home_others_may_enter_is_worth_a_look(subject: HealthSubject) -> None:
    assert checks.home(subject).state == "ok"
    subject.home.root.chmod(0o755)
    subject.home.env.write_text("")
    subject.home.env.chmod(0o640)
    found = checks.home(subject)
    assert found.state == "warn" and "the folder, .env" in found.detail and "chmod" in found.mend


def test_a_home_that_is_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert checks.home(HealthSubject(Home(tmp_path / "home"), {}, tmp_path)).state == "fail"
    assert checks.home(HealthSubject(Home(tmp_path / "home" / "x"), {}, tmp_path)).state == "fail"
    assert checks.home(HealthSubject(Home(tmp_path / "none"), {}, tmp_path)).state == "ok"


def test_problems_of_settings_are_counted(subject: HealthSubject) -> None:
    subject.home.config.write_text("modle: 1\nagent: 5\n")
    found = checks.config(subject)
    assert found.state == "warn" and found.detail.startswith("2 problems; first: config.yaml line 1")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_bytes(b"\xff"), "not UTF-8"),
        (lambda path: path.write_text("rules: [a"), "line 1"),
        (lambda path: path.mkdir(), "a folder"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to(path), "a loop of links"),
    ],
)
def test_rules_that_cannot_be_read_are_named(
    subject: HealthSubject, make: Callable[[Path], object], words: str
) -> None:
    assert checks.permissions(subject).state == "ok"
    make(subject.home.permissions)
    found = checks.permissions(subject)
    assert found.state == "warn" and "permissions.yaml" in found.detail and words in found.detail
    assert "nothing in it allows anything" in found.mend


def database(path: Path, application: int = APPLICATION_ID) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA application_id = {application}")
    connection.execute("CREATE TABLE t (a)")
    connection.executemany("INSERT INTO t VALUES (?)", [("x" * 200,)] * 500)
    connection.commit()
    connection.close()


def test_a_sound_store_is_looked_at_without_touching_it(subject: HealthSubject) -> None:
    database(subject.home.database)
    before = subject.home.database.read_bytes(), subject.home.database.stat().st_mtime_ns
    assert checks.store(subject).state == "ok"
    assert (subject.home.database.read_bytes(), subject.home.database.stat().st_mtime_ns) == before
    assert [path.name for path in subject.home.root.iterdir()] == ["state.db"]


def test_a_damaged_store_fails(subject: HealthSubject) -> None:
    database(subject.home.database)
    content = bytearray(subject.home.database.read_bytes())
    content[4096 * 2 : 4096 * 4] = b"\xaa" * 8192
    subject.home.database.write_bytes(content)
    found = checks.store(subject)
    assert found.state == "fail" and "damaged" in found.detail


def test_a_foreign_or_odd_store_fails_by_name(subject: HealthSubject) -> None:
    database(subject.home.database, application=7)
    assert "not a store of Hermes" in checks.store(subject).detail
    subject.home.database.unlink()
    os.mkfifo(subject.home.database)
    assert checks.store(subject).state == "fail"


# --- the model


class _Models(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked = self.path in ("/v1/models", "/v1/native/models")
        known = self.headers.get("Authorization") == "Bearer sesame"
        if "native" in self.path:
            known = self.headers.get("x-api-key") == "sesame" and "Authorization" not in self.headers
        self.send_response(404 if not asked else 200 if known else 401)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Models)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def configured(subject: HealthSubject, base_url: str, **variables: str) -> HealthSubject:
    subject.home.config.write_text(
        f"model: {{name: mine/m}}\nproviders: {{mine: {{base_url: '{base_url}', api_key_env: MINE_KEY}}}}\n"
    )
    return HealthSubject(subject.home, variables, subject.workspace)


def test_a_key_is_shown_as_the_wire_format_wants_it(subject: HealthSubject, address: str) -> None:
    subject = configured(subject, f"{address}/native", MINE_KEY="sesame")
    assert checks.model(subject).state == "fail"
    text = subject.home.config.read_text().replace("api_key_env", "format: anthropic, api_key_env")
    subject.home.config.write_text(text)
    assert checks.model(subject).state == "ok"


def test_a_server_that_answers_is_in_order(subject: HealthSubject, address: str) -> None:
    found = checks.model(configured(subject, address, MINE_KEY="sesame"))
    assert found.state == "ok" and "answers" in found.detail


def test_a_refused_key_names_the_variable(subject: HealthSubject, address: str) -> None:
    found = checks.model(configured(subject, address, MINE_KEY="wrong-key"))
    assert found.state == "fail" and "MINE_KEY" in found.mend and "wrong-key" not in str(found)


def test_a_server_without_a_list_of_models_is_reached_all_the_same(
    subject: HealthSubject, address: str
) -> None:
    found = checks.model(configured(subject, f"{address}/other", MINE_KEY="sesame"))
    assert found.state == "ok" and "404" in found.detail


def test_a_server_that_is_not_there_fails(subject: HealthSubject, address: str) -> None:
    found = checks.model(configured(subject, "http://127.0.0.1:9/v1", MINE_KEY="sesame"))
    assert found.state == "fail" and "127.0.0.1" in found.detail


def test_the_demo_needs_nothing(subject: HealthSubject) -> None:
    found = checks.model(HealthSubject(subject.home, {"HERMES_MODEL": "demo"}, subject.workspace))
    assert found.state == "ok"


def test_a_local_model_that_is_not_here_says_how_to_fetch_it(subject: HealthSubject) -> None:
    found = checks.model(HealthSubject(subject.home, {"HERMES_MODEL": "local"}, subject.workspace))
    assert found.state == "fail" and "hermes model pull" in found.mend


def test_a_key_that_cannot_be_sent_is_not_quoted(subject: HealthSubject, address: str) -> None:
    found = checks.model(configured(subject, address, MINE_KEY="hush\nhush"))
    assert found.state == "fail" and "hush" not in str(found)


def test_without_a_model_the_ways_on_are_named(subject: HealthSubject) -> None:
    found = checks.model(subject)
    assert found.state == "warn" and found.detail == "none is configured" and found.mend
