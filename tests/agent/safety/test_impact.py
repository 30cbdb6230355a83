"""What an action would reach, as the person who is asked gets to read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.core.event_data import VerdictPart
from agent.safety.impact import MOST_COUNTED, MOST_TOUCHED, ActionEnvironment, Impact, impact
from agent.safety.rules import Verdict
from tools.services.actions import Fetch, ReadPath, RunCommand, RunScript

ASK = Verdict("ask")
ONLINE = Verdict("ask", ("reaches the network",), (VerdictPart("curl", "ask", "reaches the network"),))


def seen(command: str, work: Path, verdict: Verdict = ASK, around: Any = None, **how: bool) -> Impact:
    action = RunCommand(tool="terminal", command=command, cwd=work, **how)
    return impact(action, verdict, around or ActionEnvironment(work, work / "home", "bubblewrap", "on"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in ("src/a.py", "src/deep/b.py", "one/only"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "touches"),
    [
        ("rm -rf src", ("src/ (2 files)",)),
        ("rm -rf src one/", ("src/ (2 files)", "one/ (1 file)")),
        ("cd src && rm a.py > log", ("src/log", "src/a.py")),
        ("echo x > new.txt", ("new.txt",)),
        ("rm -rf ./src src/./deep src/../one", ("src/ (2 files)", "src/deep/ (1 file)", "one/ (1 file)")),
        ("echo x > /dev/null 2>&1", ()),
        ("cp -r src /etc/there", ("/etc/there",)),
        ("chmod 777 src/a.py", ("src/a.py",)),
        ("sed -i s/a/b/ src/a.py", ("src/a.py",)),
        ("sed s/a/b/ src/a.py", ()),
        ("rm -rf src/*", ("src/*",)),
        ('rm -rf "$X"', ("…",)),
        ("ls; cat src/a.py", ()),
    ],
)
def test_files_a_command_would_change_are_named(work: Path, command: str, touches: tuple[str, ...]) -> None:
    assert seen(command, work).touches == touches


def test_many_files_are_counted_and_not_all_walked(work: Path) -> None:
    (work / "many").mkdir()
    for number in range(MOST_COUNTED + 10):
        (work / "many" / str(number)).touch()
    assert seen("rm -r many", work).touches == (f"many/ ({MOST_COUNTED:,} files or more)",)
    names = [f"f{number}" for number in range(MOST_TOUCHED + 3)]
    assert seen("touch " + " ".join(names), work).touches == (*names[:MOST_TOUCHED], "3 more")


@pytest.mark.parametrize(
    ("sandbox", "policy", "how", "verdict", "said"),
    [
        ("bubblewrap", "on", {}, ASK, ("open", "bubblewrap")),
        ("bubblewrap", "on", {}, ONLINE, ("yes", "bubblewrap")),
        ("bubblewrap", "off", {}, ONLINE, ("no", "bubblewrap")),
        ("landlock", "ask", {}, ONLINE, ("no", "landlock")),
        ("landlock", "ask", {"network": True}, ONLINE, ("yes", "landlock")),
        ("bubblewrap", "off", {"outside": True}, ASK, ("open", "outside")),
        ("none", "off", {}, ASK, ("open", "none")),
        ("none", "off", {"outside": True}, ONLINE, ("yes", "none")),
    ],
)
def test_network_and_sandbox_are_told_as_they_will_be(
    work: Path, sandbox: Any, policy: Any, how: dict[str, bool], verdict: Verdict, said: tuple[str, str]
) -> None:
    found = seen("x", work, verdict, ActionEnvironment(work, work / "home", sandbox, policy), **how)
    assert (found.network, found.sandbox) == said


def test_of_other_actions_only_what_is_known_is_told(work: Path) -> None:
    around = ActionEnvironment(work, work, "bubblewrap", "off")
    assert impact(Fetch(tool="fetch", url="http://h/"), ASK, around) == Impact(network="yes")
    assert impact(ReadPath(tool="read_file", path=work), ASK, around) == Impact()
    inside = impact(RunScript(tool="execute_code", code="1", sandboxed=True), ASK, around)
    outside = impact(RunScript(tool="execute_code", code="1"), ASK, around)
    assert (inside.network, inside.sandbox) == ("no", "bubblewrap")
    assert (outside.network, outside.sandbox) == ("open", "none")
