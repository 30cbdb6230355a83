"""The profile of macOS grants what the mounts of Linux grant, read rule by rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.safety.sandbox.layout import covering, places
from agent.safety.sandbox.opening import Seatbelt, profile
from tests.agent.safety.sandbox.seatbelt_rules import allows, rules
from tools.services.sandbox import SandboxLimits, SandboxPolicy

NAMES = ["ws", "ws/a", "ws/a/b", "ws/a/b/c", "ws/d", 'o"u\\t', 'o"u\\t/x', "home", "home/.ssh", "home/.ssh/k"]


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("seatbelt").resolve()
    for name in (*NAMES, "home/private/tmp"):
        (made / name).mkdir(parents=True, exist_ok=True)
    return made


def policy_of(top: Path, **more: tuple[Path, ...]) -> SandboxPolicy:
    return SandboxPolicy(workspace=top / "ws", tmp=top / "home/private/tmp", **more)


PATHS = st.lists(st.sampled_from(NAMES), max_size=3)


@pytest.mark.thorough
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writable=PATHS, readable=PATHS, hidden=PATHS, protected=PATHS)
def test_each_path_is_written_and_read_as_the_mounts_have_it(
    top: Path, writable: list[str], readable: list[str], hidden: list[str], protected: list[str]
):
    policy = policy_of(
        top,
        writable=tuple(top / name for name in writable),
        readable=tuple(top / name for name in readable),
        hidden=tuple(top / name for name in hidden),
        protected=tuple(top / name for name in protected),
    )
    found, view = rules(profile(policy)), places(policy)
    for name in NAMES:
        path = top / name / "file"
        place = covering(path, view)
        kind = "read" if place is None or place.path != place.source else place.kind
        assert allows(found, "file-read-data", str(path)) is (kind != "hide"), name
        assert allows(found, "file-write-create", str(path)) is (kind == "write"), name


def test_a_folder_above_a_closed_place_cannot_be_renamed_away(top: Path):
    found = rules(profile(policy_of(top, protected=(top / "ws/a/b",), hidden=(top / "home/.ssh",))))
    assert not allows(found, "file-write-unlink", str(top / "ws/a"))
    assert not allows(found, "file-write-unlink", str(top / "ws"))
    assert allows(found, "file-write-unlink", str(top / "ws/d"))
    assert allows(found, "file-write-create", str(top / "ws/a/new"))


def test_the_private_folder_can_be_used_though_it_lies_in_a_hidden_one(top: Path):
    found = rules(profile(policy_of(top, hidden=(top / "home",))))
    assert allows(found, "file-write-create", str(top / "home/private/tmp/new"))
    assert not allows(found, "file-read-data", str(top / "home/.ssh/k"))


@pytest.mark.parametrize(
    ("operation", "path", "offline", "online"),
    [
        ("network-outbound", "*:*", False, True),
        ("network-bind", "*:*", False, True),
        ("network-outbound", "/private/var/run/mDNSResponder", False, True),
        ("network-outbound", "/private/var/run/docker.sock", False, False),
        ("mach-lookup", "com.apple.SecurityServer", False, False),
        ("mach-lookup", "com.apple.coreservices.launchservicesd", False, False),
        ("mach-lookup", "com.apple.trustd", False, True),
        ("mach-lookup", "com.apple.logd", True, True),
        ("file-write-data", "/dev/null", True, True),
        ("file-write-data", "/dev/ttys001", False, False),
        ("file-write-create", "/tmp/new", False, False),
        ("appleevent-send", "", False, False),
        ("iokit-open", "", False, False),
        ("process-exec", "", True, True),
    ],
)
def test_what_is_granted_beside_files(top: Path, operation: str, path: str, offline: bool, online: bool):
    for network, expected in ((False, offline), (True, online)):
        found = rules(profile(replace(policy_of(top), network=network)))
        assert allows(found, operation, path) is expected


def test_its_own_terminal_can_be_written_and_no_other(top: Path):
    found = rules(profile(replace(policy_of(top), terminal="/dev/ttys003")))
    assert allows(found, "file-ioctl", "/dev/ttys003") and not allows(found, "file-ioctl", "/dev/ttys004")


def test_the_program_is_started_with_limits_and_a_private_temporary_folder(top: Path):
    policy = replace(policy_of(top), limits=SandboxLimits(processes=5, files=99))
    wrapped = Seatbelt().wrap(["echo", "$HOME"], policy)
    program, flag, text, shell, option, stage, *rest = wrapped.argv
    assert (program, flag, text) == ("/usr/bin/sandbox-exec", "-p", profile(policy))
    assert (shell, option, rest) == ("/bin/sh", "-c", ["sh", "echo", "$HOME"])
    assert "ulimit -n 99" in stage and "ulimit -u" not in stage
    assert wrapped.env == {"TMPDIR": str(policy.tmp)}
