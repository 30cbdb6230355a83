from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from agent.core.config import trust
from agent.core.home import Home
from agent.safety.gate import Gate
from agent.safety.permissions.policy import PermissionPolicy, Permissions
from tools.services.actions import Fetch, ReadPath, RunCommand, WritePath


class Place:
    """A home and a workspace on the disk."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "work"
        self.home = Home(folder / "home" / ".hermes")
        for each in (self.workspace / ".git", self.workspace / ".hermes", self.home.root):
            each.mkdir(parents=True)

    def permissions(self, surface: str = "tui") -> Permissions:
        return Permissions(self.home, self.workspace, surface, person=self.home.root.parent)

    def own(self, text: str) -> None:
        self.home.permissions.write_text(text)

    def projects(self, text: str) -> None:
        (self.workspace / ".hermes" / "permissions.yaml").write_text(text)

    def run(self, command: str) -> RunCommand:
        return RunCommand(tool="terminal", command=command, cwd=self.workspace)

    def write(self, name: str) -> WritePath:
        return WritePath(tool="write_file", path=self.workspace / name)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def rules(policy: PermissionPolicy) -> list[tuple[str, str]]:
    return [(rule.text, rule.verdict) for rule in policy.rules.rules]


def test_without_files_there_are_no_rules(place: Place) -> None:
    policy = place.permissions().current()
    assert rules(policy) == [] and policy.mode is None and policy.problems == ()


def test_a_changed_file_counts_at_once(place: Place) -> None:
    permissions = place.permissions()
    place.own("rules: {terminal(a): deny}")
    assert rules(permissions.current()) == [("terminal(a)", "deny")]
    place.own("rules: {terminal(b): deny}")  # as long, and in the same moment
    assert rules(permissions.current()) == [("terminal(b)", "deny")]
    place.home.permissions.unlink()
    assert rules(permissions.current()) == []


def test_a_file_that_rests_is_not_read_again(place: Place) -> None:
    place.own("rules: {terminal(a): deny}")
    os.utime(place.home.permissions, ns=(1, 1))
    permissions = place.permissions()
    first = permissions.current()
    deadline = threading.Event()
    while permissions.stale:
        deadline.wait(0.05)
        first = permissions.current()
    assert permissions.current() is first


@pytest.mark.parametrize("broken", ["mode: [", "mode: yolo\nrules: {nosuch: deny, terminal(c): allow}", "\0"])
def test_a_broken_edit_keeps_what_was_denied_and_allows_nothing(place: Place, broken: str) -> None:
    permissions = place.permissions()
    place.own("mode: yolo\nrules: {terminal(a): deny, terminal(b): allow, fetch: ask}")
    assert permissions.current().mode_from("normal") == "yolo"
    place.own(broken)
    policy = permissions.current()
    assert set(rules(policy)) == {("terminal(a)", "deny"), ("fetch", "ask")}
    assert policy.problems and policy.mode_from("normal", "yolo") == "normal"
    place.own("rules: {terminal(b): allow}")
    assert rules(permissions.current()) == [("terminal(b)", "allow")]


def test_a_file_that_was_never_understood_leaves_only_reading(place: Place) -> None:
    place.own("rules: {")
    policy = place.permissions().current()
    assert policy.mode_from("normal", "yolo") == "careful"


@pytest.mark.parametrize("kind", ["folder", "loop", "pipe", "link to nothing"])
def test_a_file_that_cannot_be_read_is_a_broken_one(place: Place, kind: str) -> None:
    path = place.home.permissions
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path.parent / "dotfiles" / "permissions.yaml")
    policy = place.permissions().current()
    assert "it is not read" in str(policy.problems[0])
    assert policy.mode_from("yolo") == "careful"


def test_a_profile_counts_for_its_surface_only(place: Place) -> None:
    place.own("mode: yolo\nprofiles: {oneshot: {mode: plan, rules: {fetch: deny}}}")
    tui, oneshot = place.permissions("tui").current(), place.permissions("oneshot").current()
    assert (tui.mode_from("normal"), rules(tui)) == ("yolo", [])
    assert (oneshot.mode_from("normal"), rules(oneshot)) == ("plan", [("fetch", "deny")])
    assert oneshot.mode_from("normal", "careful") == "careful"


def test_a_strange_project_may_only_forbid(place: Place) -> None:
    place.projects(
        "mode: yolo\nrules:\n  terminal(a): allow\n  terminal(b): {verdict: ask, reason: 'all is well'}\n"
    )
    policy = place.permissions().current()
    assert rules(policy) == [("terminal(b)", "ask")] and policy.project == "untrusted"
    assert "all is well" not in policy.rules.rules[0].because()
    assert policy.mode_from("normal") == "normal"


def test_a_trusted_project_may_allow_but_not_loosen_the_mode(place: Place) -> None:
    place.projects("mode: yolo\nrules: {terminal(a): allow}")
    permissions = place.permissions()
    assert rules(permissions.current()) == []
    project = trust.read_project(place.home, place.workspace)
    assert project is not None
    trust.trust(place.home, project)
    policy = permissions.current()
    assert rules(policy) == [("terminal(a)", "allow")] and policy.mode_from("normal") == "normal"
    place.projects("mode: careful\nrules: {terminal(a): allow}")
    assert rules(permissions.current()) == []  # trust ended with the change


def test_a_project_file_that_leads_out_of_the_project_is_not_read(place: Place, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("rules: {terminal(a): ask}")
    (place.workspace / ".hermes" / "permissions.yaml").symlink_to(tmp_path / "elsewhere")
    policy = place.permissions().current()
    assert rules(policy) == [] and "leads out of the project" in str(policy.problems[0])


def test_deciding_while_the_file_changes_never_lets_the_denied_pass(place: Place) -> None:
    texts = [
        "rules: {terminal(x *): deny, write_file: allow}",
        "rules: {terminal(x *): deny}",
        "rules: {terminal(",
    ]
    place.own(texts[0])
    gate = Gate.for_home(place.home, place.workspace, "all", permissions=place.permissions())
    assert gate.decide(place.run("x y")).kind == "deny"
    stop = threading.Event()
    seen: list[str] = []

    def decide() -> None:
        while not stop.is_set():
            seen.append(gate.decide(place.run("x y")).kind)

    threads = [threading.Thread(target=decide) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(60):
        fresh = place.home.permissions.with_suffix(".new")
        fresh.write_text(texts[turn % 3])
        fresh.replace(place.home.permissions)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(seen) > 5 and set(seen) == {"deny"}


def test_links_and_dots_do_not_lead_around_a_rule(place: Place) -> None:
    place.own("rules: {write_file(secret/**): deny, read_file(secret/**): deny, write_file(src/**): allow}")
    (place.workspace / "secret").mkdir()
    (place.workspace / "src").mkdir()
    (place.workspace / "src" / "door").symlink_to(place.workspace / "secret")
    gate = Gate.for_home(place.home, place.workspace, "all", permissions=place.permissions())
    for action in (
        place.write("src/door/a"),
        place.write("src/../secret/a"),
        place.run("echo x > src/door/a"),
        place.run("cd src && cp a ../secret/b"),
        place.run("cat src/door/../../secret/key"),
        ReadPath(tool="search", path=place.workspace / "src" / "door"),
    ):
        assert gate.decide(action).kind == "deny", action
    assert gate.decide(place.write("src/a")).kind == "allow"


def test_an_absolute_path_meets_its_rule_wherever_the_command_stands(place: Place) -> None:
    place.own("rules: {read_file(secret/**): deny, write_file(secret/**): deny}")
    gate = Gate.for_home(place.home, place.workspace, "all", permissions=place.permissions())
    for command in ("cat {}", "cd $X; cat {}", "cd $X && cp a {}", "cd $(pick) || exit; wc -l < {}"):
        shown = command.format(place.workspace / "secret" / "key")
        assert gate.decide(place.run(shown)).kind == "deny", command


@pytest.mark.parametrize(
    ("rule", "url", "opens"),
    [
        ("fetch(http://127.0.0.1:3000/**)", "http://127.0.0.1:3000/a/b", True),
        ("fetch(http://localhost:3000/docs/**)", "http://localhost:3000/docs/a", True),
        ("fetch(http://localhost:3000/docs/**)", "http://localhost:3000/admin", False),
        ("fetch(https://[fd00::7]:8443/**)", "https://[fd00::7]:8443/", True),
        ("web_extract(http://127.0.0.1:3000/**)", "http://127.0.0.1:3000/", True),
        ("web_crawl(http://127.0.0.1:3000/**)", "http://127.0.0.1:3000/", False),
        ("fetch(http://10.0.0.5:80/**)", "http://10.0.0.5/", True),
        ("fetch(http://127.0.0.1:3000/**)", "http://127.0.0.1:3001/", False),
        ("fetch(http://127.0.0.1/**)", "http://127.0.0.1/", False),
        ("fetch(127.0.0.1:3000)", "http://127.0.0.1:3000/", False),
        ("fetch(http://127.0.0.1:*/**)", "http://127.0.0.1:3000/", False),
        ("fetch(http://127.0.0.*:3000/**)", "http://127.0.0.1:3000/", False),
        ("fetch(http://box.lan:3000/**)", "http://box.lan:3000/", False),
        ("fetch(http://2130706433:3000/**)", "http://2130706433:3000/", False),
        ("fetch", "http://127.0.0.1:3000/", False),
    ],
)
def test_only_an_address_with_scheme_and_port_opens_what_is_never_reached(
    place: Place, rule: str, url: str, opens: bool
) -> None:
    place.own(f"rules: {{'{rule}': allow}}")
    assert place.permissions().current().opens(Fetch(tool="web_extract", url=url)) is opens


def test_a_project_opens_no_address(place: Place) -> None:
    place.projects("rules: {'fetch(http://127.0.0.1:3000/**)': allow}")
    project = trust.read_project(place.home, place.workspace)
    assert project is not None
    trust.trust(place.home, project)
    assert place.permissions().current().project == "trusted"
    assert not place.permissions().current().opens(Fetch(tool="x", url="http://127.0.0.1:3000/"))
