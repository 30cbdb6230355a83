"""From a workspace to a policy, from a policy to places, and what is read in a refused command's output."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.messages import ModeName
from agent.events import Decision
from agent.safety.rules import Verdict
from agent.safety.sandbox import landlock, opening, seccomp
from agent.safety.sandbox.boundary import explain, steps_over, withheld_clause
from agent.safety.sandbox.landlock import landlock_version
from agent.safety.sandbox.layout import covering, missing, places
from agent.safety.sandbox.opening import is_effective, probe
from agent.safety.sandbox.repository import NONE, repository_of
from agent.safety.sandbox.secrets import of_session
from agent.workspace.placeholders import hold
from tests.agent.safety.sandbox.cell import Cell
from tests.agent.safety.sandbox.kinds import KINDS
from tests.support.gates import plain_gate
from tools.results import DeniedError, ToolError
from tools.services.actions import Action, ReadPath, RunCommand
from tools.services.sandbox import Need, SandboxName, SandboxPolicy


def test_the_strongest_boundary_that_holds_is_taken():
    assert probe("auto").name == (next(iter(KINDS.values())).name if KINDS else "none")
    assert probe("off").name == "none"


def test_threads_that_ask_for_the_boundary_at_once_get_the_one_that_was_tested():
    opening._probe.cache_clear()
    together = threading.Barrier(4)

    def ask(_number: int) -> int:
        together.wait()
        return id(probe("auto"))

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(ask, range(4)))) == 1


def test_every_boundary_this_machine_can_draw_is_tested():
    wanted: set[str] = set()
    unshare = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", *(["-r"] if os.geteuid() else [])]
    if landlock_version() >= 1 and subprocess.run([*unshare, "true"], capture_output=True).returncode == 0:
        wanted |= {"landlock"} | ({"bubblewrap"} if shutil.which("bwrap") else set())
    if landlock_version() >= landlock.SCOPES_SINCE:
        wanted |= {"landlock-alone"}
    assert wanted <= set(KINDS)


def test_a_link_in_the_place_of_the_workspace_is_not_followed(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "inner").mkdir()
    policy = SandboxPolicy(workspace=tmp_path / "real" / "ws", tmp=tmp_path / "tmp")
    policy.workspace.mkdir()
    for swapped in (policy.workspace, policy.workspace.parent):
        kept = swapped.with_name("kept")
        swapped.rename(kept)
        swapped.symlink_to(tmp_path / "inner" if swapped == policy.workspace else kept)
        for sandbox in KINDS.values():
            with pytest.raises(ToolError, match="cannot be drawn"):
                sandbox.wrap(["true"], policy)
        swapped.unlink()
        kept.rename(swapped)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_link_put_there_after_the_look_is_not_followed_either(kind: str, make_cell: Callable[..., Cell]):
    cell = make_cell()
    wrapped = cell.boundary.wrap(["/bin/sh", "-c", "echo in > ../outside/new; echo in > new"], Need())
    cell.workspace.rename(cell.root / "moved")
    cell.workspace.symlink_to(cell.outside)
    done = subprocess.run(wrapped.argv, cwd="/", pass_fds=wrapped.fds, capture_output=True, timeout=200)
    wrapped.started()
    wrapped.ended()
    assert done.returncode != 0 and os.listdir(cell.outside) == ["file"]


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_boundary_that_lets_something_out_does_not_count(kind: str, monkeypatch: pytest.MonkeyPatch):
    assert is_effective(KINDS[kind])
    sandbox = KINDS[kind]

    class Leaky:
        name: SandboxName = sandbox.name
        has_mounts = sandbox.has_mounts
        can_protect_parts = sandbox.can_protect_parts

        def wrap(self, argv, policy):
            from dataclasses import replace

            return sandbox.wrap(
                argv, replace(policy, writable=(policy.workspace.parent / "out",), readable=())
            )

    assert not is_effective(Leaky())


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_boundary_holds_whatever_number_our_own_process_has(kind: str, monkeypatch: pytest.MonkeyPatch):
    for number in range(1, 6):
        monkeypatch.setattr(os, "getpid", lambda number=number: number)
        assert is_effective(KINDS[kind]), number


def test_a_boundary_from_which_our_process_can_be_signalled_does_not_hold(monkeypatch: pytest.MonkeyPatch):
    if "bubblewrap" not in KINDS:
        pytest.skip("bubblewrap does not work here")
    apart = opening._namespaces
    monkeypatch.setattr(
        opening, "_namespaces", lambda policy: [each for each in apart(policy) if each != "--unshare-pid"]
    )
    assert not is_effective(KINDS["bubblewrap"])


def test_a_boundary_that_cannot_be_tried_does_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sandbox = probe()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert not is_effective(sandbox)


def test_of_two_rules_the_deeper_one_counts(tmp_path: Path):
    for name in ("ws/keep/open", "tmp"):
        (tmp_path / name).mkdir(parents=True)
    policy = SandboxPolicy(
        workspace=tmp_path / "ws",
        tmp=tmp_path / "tmp",
        hidden=(tmp_path / "ws" / "keep",),
        writable=(tmp_path / "ws" / "keep" / "open",),
    )
    view = places(policy)

    def kind(path: Path) -> str:
        place = covering(path, view)
        return place.kind if place is not None else "read"

    assert kind(tmp_path / "ws" / "a") == "write"
    assert kind(tmp_path / "ws" / "keep" / "b") == "hide"
    assert kind(tmp_path / "ws" / "keep" / "open" / "c") == "write"
    assert kind(Path("/usr/bin")) == "read"


def test_what_nobody_inside_could_change_or_read_anyway_costs_no_mount(tmp_path: Path):
    open_folder, closed = tmp_path / "open", tmp_path / "closed"
    for folder in (tmp_path / "tmp", open_folder, closed):
        folder.mkdir()
    for path in (open_folder / "start", closed / "start", closed / "secret"):
        path.write_text("x")
    policy = SandboxPolicy(
        workspace=open_folder,
        tmp=tmp_path / "tmp",
        protected=(open_folder / "start", closed / "start"),
        hidden=(closed / "secret", Path("/etc/shadow")),
    )
    # The private folder covers the machine's, in which tests work.
    kinds = {place.path: place.kind for place in places(policy)}
    under_tmp = closed.is_relative_to("/tmp") or closed.is_relative_to("/var/tmp")
    assert kinds[open_folder / "start"] == "read"
    assert (closed / "start" in kinds) == under_tmp
    assert kinds[closed / "secret"] == "hide"
    assert (Path("/etc/shadow") in kinds) == os.access("/etc/shadow", os.R_OK)


def test_a_hidden_place_cannot_be_made_writable_by_name(tmp_path: Path):
    (tmp_path / "both").mkdir()
    policy = SandboxPolicy(
        workspace=tmp_path, tmp=tmp_path, writable=(tmp_path / "both",), hidden=(tmp_path / "both",)
    )
    place = covering(tmp_path / "both", places(policy))
    assert place is not None and place.kind == "hide"


def test_a_placeholder_goes_with_the_last_who_needs_it(tmp_path: Path):
    first, second = hold([tmp_path / "a"]), hold([tmp_path / "a"])
    first.release()
    first.release()
    assert (tmp_path / "a").is_dir()
    second.release()
    assert not (tmp_path / "a").exists()


def test_what_another_start_put_into_a_gap_is_still_a_gap_and_held_by_both(tmp_path: Path):
    store = tmp_path / ".git"
    store.mkdir()
    (store / "HEAD").write_text("ref: refs/heads/main\n")
    (store / "config").write_text("")
    names = {"hooks", "commondir", "config.worktree"}
    first = hold(*repository_of(tmp_path).gaps())
    second = hold(*repository_of(tmp_path).gaps())
    first.release()
    assert names < {path.name for path in store.iterdir()}
    second.release()
    assert {path.name for path in store.iterdir()} == {"HEAD", "config"}


def test_a_hidden_folder_is_covered_at_the_same_gap_by_every_start(tmp_path: Path):
    policy = SandboxPolicy(workspace=tmp_path, tmp=tmp_path, hidden=(tmp_path / "a" / "b",))
    first = hold(missing(places(policy)))
    second = hold(missing(places(policy)))
    first.release()
    assert (tmp_path / "a").is_dir()
    second.release()
    assert not (tmp_path / "a").exists()


def test_a_placeholder_that_was_taken_away_is_put_back_for_the_next_start(tmp_path: Path):
    first = hold([tmp_path / "a"])
    (tmp_path / "a").rmdir()
    second = hold([tmp_path / "a"])
    assert (tmp_path / "a").is_dir()
    first.release()
    second.release()
    assert not (tmp_path / "a").exists()


def test_a_marker_that_points_elsewhere_opens_nothing(tmp_path: Path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "HEAD").write_text("ref: refs/heads/main\n")
    work = tmp_path / "work"
    work.mkdir()
    (work / ".git").write_text(f"gitdir: {victim}\n")
    assert repository_of(work) == NONE
    (work / ".git").unlink()
    (work / ".git").symlink_to(victim)
    assert repository_of(work) == NONE


def test_sockets_of_the_session_are_found_by_their_variables():
    found = of_session(
        {
            "SSH_AUTH_SOCK": "/tmp/ssh-x/agent.1",
            "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1/bus,guid=2",
            "DOCKER_HOST": "unix:///var/run/docker.sock",
            "CONTAINER_HOST": "tcp://127.0.0.1:1",
        }
    )
    assert [str(path) for path in found] == ["/tmp/ssh-x/agent.1", "/run/user/1/bus", "/var/run/docker.sock"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("touch: cannot touch '/etc/x': Read-only file system", True),
        ("cat: /home/u/.ssh/id: Permission denied", True),
        ("bash: ./own: Permission denied", False),
        ("cat: /w/own: Permission denied", False),
        ("grep: x: No such file or directory", False),
        ("curl: (6) Could not resolve host: example.org", True),
        ("mount: Operation not permitted", True),
        ("all tests passed", False),
    ],
)
def test_only_what_the_boundary_refused_gets_advice(line: str, said: bool):
    text = explain(f"before\n{line}\n", [Path("/w")], [Path("/home/u/.ssh")], network=False)
    assert ("outside=true" in text) is said


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("warning: ptrace: Operation not permitted", "cannot trace programs"),
        ("unshare: unshare failed: Operation not permitted", "namespaces"),
        ("bash: line 1: ulimit: open files: cannot modify limit: Operation not permitted", "limits"),
        ("==8==LeakSanitizer has encountered a fatal error.", "ASAN_OPTIONS=detect_leaks=0"),
        ("touch: cannot touch '/etc/x': Operation not permitted", "Only the workspace"),
        ("Error: EXDEV: cross-device link not permitted, rename '/tmp/a' -> '/w/a'", "TMPDIR"),
        ("OSError: [Errno 18] Invalid cross-device link: '/tmp/a' -> '/w/a'", "TMPDIR"),
    ],
)
def test_what_no_file_stands_in_the_way_of_is_not_put_down_to_files(line: str, why: str):
    assert why in explain(f"{line}\n", [Path("/w")], [], network=True)


@pytest.mark.parametrize(
    ("command", "output", "place"),
    [
        ("curl -sSfn https://h/x", "curl: (22) The requested URL returned error: 401", ".netrc"),
        ("curl -sSf https://h/x", "curl: (22) The requested URL returned error: 401", ""),
        ("pip install a", "Looking in indexes: http://h/\nERROR: No matching distribution found", ".netrc"),
        ("pip install a", "ERROR: No matching distribution found", ""),
        ("uv add a", "could not be queried due to a lack of valid authentication credentials", ".netrc"),
        ("twine upload -r x", "InvalidConfiguration: Missing 'x' section from ~/.pypirc.", ".pypirc"),
        ("curl -s file://{}/.netrc", "", ".netrc"),
        ("aws --profile dev s3 ls", "The config profile (dev) could not be found", ".aws"),
    ],
)
def test_programs_that_miss_a_login_get_told_which(
    command: str, output: str, place: str, tmp_path: Path
) -> None:
    hidden = [tmp_path / name for name in (".netrc", ".pypirc", ".aws")]
    for path in hidden:
        path.touch()
    wanted = [path for path in hidden if place in ("", path.name)]
    note = explain(output, [Path("/w")], wanted, network=True, command=command.format(tmp_path))
    assert withheld_clause(note) == (f"{tmp_path / place} is hidden inside" if place else "")


@given(st.text())
def test_any_output_can_be_read(text: str):
    assert isinstance(explain(text, [Path("/w")], [Path("/h")], network=False), str)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize(("internet", "unix"), [(True, True), (False, False)])
def test_every_jump_of_the_filter_lands_inside_it(machine: str, internet: bool, unix: bool):
    code = seccomp.program(internet=internet, unix=unix, machine=machine)
    steps = list(struct.iter_unpack("=HBBI", code))
    for at, (operation, yes, no, _) in enumerate(steps):
        if operation & 7 == 5:
            assert at + 1 + max(yes, no) < len(steps)
    assert steps[-1][0] == 6 and len(steps) < 4096


@pytest.mark.parametrize("version", range(1, 8))
def test_each_version_of_landlock_is_asked_only_for_what_it_knows(version: int, tmp_path: Path):
    known = {1: 13, 2: 14}.get(version, 15)
    assert landlock.handled_rights(version) < 1 << known
    policy = SandboxPolicy(workspace=tmp_path, tmp=tmp_path)
    spec = landlock.Landlock(spaces=False, version=version)._alone(places(policy), policy)
    assert spec["scope"] is (version >= 6) and bool(spec["handled_network"]) is (version >= 4)


def test_leaving_is_asked_for_and_staying_is_not():
    inside = RunCommand(tool="terminal", command="ls", cwd=Path("/"))
    assert steps_over(inside) is None and steps_over(ReadPath(tool="read_file", path=Path("/"))) is None
    outside = RunCommand(tool="terminal", command="ls", cwd=Path("/"), outside=True)
    assert "outside the sandbox" in (steps_over(outside) or "")


class Person:
    """Says the same each time, and counts."""

    def __init__(self, choice: Literal["once", "session"]) -> None:
        self.choice: Literal["once", "session"] = choice
        self.asked: list[Verdict] = []

    async def ask(self, action: Action, verdict: Verdict) -> Decision:
        self.asked.append(verdict)
        return Decision(self.choice)


@pytest.mark.parametrize(("choice", "times"), [("once", 2), ("session", 1)])
@pytest.mark.parametrize("mode", ["ask", "yolo"])
async def test_the_network_is_asked_for_until_it_is_allowed_for_the_session(
    tmp_path: Path, mode: ModeName, choice: Literal["once", "session"], times: int
):
    person = Person(choice)
    gate = plain_gate(tmp_path, mode, approver=person)
    online = RunCommand(tool="terminal", command="ls", cwd=tmp_path, network=True)
    await gate.permit(online)
    await gate.permit(online)
    assert [verdict.reasons for verdict in person.asked] == [
        ("runs in the sandbox with the network on",)
    ] * times
    await gate.permit(RunCommand(tool="terminal", command="ls", cwd=tmp_path))
    assert len(person.asked) == times
    with pytest.raises(DeniedError):
        await plain_gate(tmp_path, mode).permit(online)


async def test_what_leaves_is_asked_for_each_time(tmp_path: Path):
    person = Person("session")
    gate = plain_gate(tmp_path, approver=person)
    for network in (False, True, True):
        await gate.permit(
            RunCommand(tool="terminal", command="ls", cwd=tmp_path, outside=True, network=network)
        )
    assert len(person.asked) == 3


def test_no_descriptor_is_left_open(tmp_path: Path):
    before = sorted(os.listdir("/proc/self/fd"))
    for sandbox in KINDS.values():
        wrapped = sandbox.wrap(["true"], SandboxPolicy(workspace=tmp_path, tmp=tmp_path, network=True))
        wrapped.started()
        wrapped.started()
        wrapped.ended()
    assert sorted(os.listdir("/proc/self/fd")) == before
