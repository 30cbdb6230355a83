"""What the client programs are asked, and what is said when they refuse."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import tools.files.read_file_tool  # noqa: F401 registers
from tests.tools.terminal.conftest import processes_with, until
from tests.tools.terminal.far import environment, far_task, place, sshd
from tools.registry import call_tool
from tools.terminal.backends.options import (
    DaytonaOptions,
    DockerOptions,
    ModalOptions,
    Options,
    SingularityOptions,
    SshOptions,
)


async def error(root: Path, kind: str, own: Options, environ: dict[str, str] | None = None) -> str:
    task = far_task(place(kind, root, own, environ), root)
    result = await task.run("echo ran")
    await task.context.terminals.aclose()
    return result["error"]


@pytest.mark.sample(11)
@pytest.mark.parametrize(
    ("kind", "own", "said"),
    [
        ("docker", DockerOptions(image="missing"), "no image missing"),
        ("docker", DockerOptions(image="x", program="no-such-docker"), "no-such-docker is not installed"),
        ("docker", DockerOptions(image="x", mounts=("nonsense",)), "source:target"),
        ("singularity", SingularityOptions(image="/missing.sif"), "cannot be opened"),
        ("singularity", SingularityOptions(image="x", program="no-such"), "no-such is not installed"),
        ("ssh", SshOptions(host="stranger"), "The key of stranger is not known"),
        ("ssh", SshOptions(host="closed"), "closed refused the key"),
        ("ssh", SshOptions(host="away"), "away cannot be reached"),
        ("ssh", SshOptions(host="-oProxyCommand=id"), "is not a name of a host"),
        ("ssh", SshOptions(host="h", user="-l"), "is not a name of a user"),
        ("ssh", SshOptions(host="h", key="/no/such/key"), "There is no key file /no/such/key"),
        ("modal", ModalOptions(image="x"), "The package modal is not installed"),
        ("daytona", DaytonaOptions(), "The package daytona is not installed"),
    ],
)
async def test_what_is_wrong_is_one_sentence(tmp_path: Path, kind: str, own: Options, said: str):
    sentence = await error(tmp_path, kind, own)
    assert said in sentence
    assert "\n" not in sentence
    assert sentence.endswith(".")


async def test_a_daemon_that_is_down_is_said_so(tmp_path: Path):
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker/down").touch()
    assert "does not reach its daemon" in await error(tmp_path, "docker", DockerOptions(image="x"))


async def test_a_background_process_that_cannot_start_ends_with_the_reason(tmp_path: Path):
    task = far_task(place("docker", tmp_path), tmp_path)
    started = await task.run("echo x", background=True, workdir="/no/such/folder")
    ended = await task.process("wait", started["session_id"], timeout=100)
    assert (ended["exit_code"], "There is no folder" in ended["output"]) == (126, True)
    await task.context.terminals.aclose()


async def test_a_container_is_limited_labelled_and_sees_the_project_under_its_own_path(tmp_path: Path):
    own = DockerOptions(
        image="img:1",
        network=False,
        cpus=1.5,
        memory="2g",
        processes=99,
        mounts=("/data:/d:ro",),
        pull="never",
    )
    task = far_task(place("docker", tmp_path, own), tmp_path)
    await task.run("true")
    await task.context.terminals.aclose()
    calls = (tmp_path / "docker/calls").read_text().splitlines()
    run = next(call for call in calls if call.startswith("run "))
    for wanted in (
        "--rm", "-i", "--init", "--pull=never", "--cap-drop=ALL", "--security-opt=no-new-privileges",
        "--network=none", "--cpus=1.5", "--memory=2g", "--pids-limit=99",
        f"--user={os.getuid()}:{os.getgid()}",
        f"--label=hermes.agent={os.getpid()}", "--mount=type=bind,source=/data,target=/d,readonly",
        f"--mount=type=bind,source={task.workspace},target={task.workspace}", "-- img:1",
    ):  # fmt: skip
        assert f" {wanted} " in f"{run} "
    assert sum(call.startswith("run ") for call in calls) == 1
    assert calls[-1].startswith("rm -f -v hermes-")
    assert list((tmp_path / "docker/up").iterdir()) == []


async def test_containers_of_a_dead_hermes_are_swept_and_those_of_a_living_one_stay(tmp_path: Path):
    dead = subprocess.Popen(["true"])
    dead.wait()
    up = tmp_path / "docker/up"
    up.mkdir(parents=True)
    (up / "orphan").write_text(str(dead.pid))
    (up / "neighbour").write_text(str(os.getpid()))
    task = far_task(place("docker", tmp_path), tmp_path)
    await task.run("true")
    assert {path.name for path in up.iterdir()} >= {"neighbour"}
    assert not (up / "orphan").exists()
    await task.context.terminals.aclose()


async def test_instances_of_a_dead_hermes_are_stopped(tmp_path: Path):
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / "apptainer").mkdir()
    for name in (f"hermes-{dead.pid}-0123abcd", "hermes-1-0123abcd", "other"):
        (tmp_path / "apptainer" / name).touch()
    task = far_task(place("singularity", tmp_path), tmp_path)
    await task.run("true")
    await task.context.terminals.aclose()
    assert {path.name for path in (tmp_path / "apptainer").iterdir()} == {"hermes-1-0123abcd", "other"}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["docker", "ssh", "singularity"])
async def test_commands_get_what_was_named_for_them_and_no_argument_shows_it(tmp_path: Path, kind: str):
    environ = environment(
        tmp_path, VENDOR_API_KEY="s3cr3t-value", LET_TOKEN="l3t-value", LESSOPEN="x", LC_ALL="C"
    )
    options = place(kind, tmp_path, environ=environ)
    options = replace(options, env={"OWN": "o w'n"})
    task = far_task(options, tmp_path)
    task.context.options = {"terminal.env_passthrough": ("LET_TOKEN",)}
    command = (
        'echo "$OWN,$LC_ALL,${VENDOR_API_KEY-},${LESSOPEN-}"; test "$LET_TOKEN" = "l3t""-value" && echo let; '
    )
    command += "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'l3t[-]value'"
    assert await task.output(command) == "o w'n,C,,\nlet\n0\n"
    await task.context.terminals.aclose()


async def test_a_lost_connection_is_said_and_the_next_command_begins_afresh(tmp_path: Path):
    task = far_task(place("ssh", tmp_path), tmp_path)
    await task.run("X=1; cd /usr")
    folder = next(tmp_path.glob("hermes.*")).name
    anchor = []
    for pid in processes_with("hermes"):
        with suppress(OSError):  # One of another program may have ended, or be of another user.
            if f"{tmp_path}".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                anchor.append(pid)
    assert anchor
    for pid in anchor:
        os.kill(pid, signal.SIGKILL)
    await until(lambda: not [pid for pid in processes_with("hermes") if pid in anchor])
    result: dict[str, str] = {}
    while "afresh" not in result.get("error", ""):
        result = await task.run("echo $X")
        assert "X" not in result.get("output", "")
    assert await task.output("echo ${X-none}; pwd") == f"none\n{task.workspace}\n"
    await task.context.terminals.aclose()
    assert [path.name for path in tmp_path.glob("hermes.*")] in ([], [folder])


async def test_a_folder_on_another_machine_is_none_of_this_one_for_the_gate(tmp_path: Path):
    ssh = far_task(place("ssh", tmp_path), tmp_path)
    docker = far_task(place("docker", tmp_path), tmp_path)
    for task in (ssh, docker):
        await task.run("true")
        await task.context.terminals.aclose()
    asked = [task.context.actions[-1].cwd for task in (ssh, docker)]
    assert asked == [Path(f"/ssh:{ssh.workspace}"), docker.workspace]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshOptions | None]:
    """A real server for whoever runs the tests; None where there is none or it may not run."""
    program = sshd()
    if program is None:
        yield None
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    (tmp_path / "key.pub").rename(tmp_path / "authorized")
    public = (tmp_path / "host.pub").read_text().split()[:2]
    (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {' '.join(public)}\n")
    (tmp_path / "conf").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\n"
        f"AuthorizedKeysFile {tmp_path}/authorized\n"
        "StrictModes no\nPidFile none\nUsePAM no\nPermitRootLogin yes\n"
    )
    child = subprocess.Popen([program, "-D", "-e", "-f", tmp_path / "conf"], stderr=subprocess.DEVNULL)
    while child.poll() is None and not _answers(port):
        time.sleep(0.02)
    running = child.poll() is None
    yield SshOptions(
        host="127.0.0.1", port=port, key=str(tmp_path / "key"), known_hosts=str(tmp_path / "known"),
        program="/usr/bin/ssh",
    ) if running else None  # fmt: skip
    child.terminate()
    child.wait()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.mark.thorough
async def test_a_real_server_does_what_the_stand_in_does(tmp_path: Path, server: SshOptions | None):
    task = far_task(place("ssh", tmp_path, server or SshOptions(host="h")), tmp_path)
    assert (await task.output("X=1; cd /usr; echo one")).endswith("one\n")
    assert await task.output("echo $X; pwd") == "1\n/usr\n"
    assert (await task.output("stty size; echo $X", pty=True)).split() == ["40", "120", "1"]
    assert (await task.run("setsid sleep 4722.25 & sleep 4722.25", timeout=5))["exit_code"] == 124
    assert processes_with("4722.25") == []
    await task.context.terminals.aclose()


async def test_a_real_client_says_that_a_port_is_closed(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        own = SshOptions(host="127.0.0.1", port=taken.getsockname()[1], program="/usr/bin/ssh")
        sentence = await error(tmp_path, "ssh", own)
    assert "127.0.0.1 cannot be reached" in sentence or "not installed" in sentence


async def test_the_socket_of_the_connection_is_in_a_folder_of_our_own(tmp_path: Path):
    task = far_task(place("ssh", tmp_path), tmp_path)
    from tools.terminal.backends.opening import SshConnector

    reach = SshConnector(SshOptions(host="h", port=2200, user="me"), environment(tmp_path))
    channel = reach.anchor(["sh", "-c", "echo $1", "sh", "a'b"])
    folder = reach._folder
    assert folder is not None
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    arguments = reach._arguments("ControlMaster=no", "-T", ["true"])
    assert {"-oStrictHostKeyChecking=yes", "-oBatchMode=yes", "-oForwardAgent=no"} <= set(arguments)
    assert arguments[-3:] == ["--", "h", "exec 'true'"]
    output = b""
    while data := channel.read():
        output += data
    assert output.endswith(b"a'b\n")
    channel.finish()
    reach.release()
    assert not folder.path.exists()
    await task.context.terminals.aclose()


@pytest.mark.parametrize(("kind", "refused"), [("ssh", True), ("docker", False)])
async def test_file_tools_do_not_take_one_machine_for_another(tmp_path: Path, kind: str, refused: bool):
    task = far_task(place(kind, tmp_path), tmp_path)
    (task.workspace / "notes").write_text("ours\n")
    result = json.loads(await call_tool("read_file", {"path": "notes"}, task.context))
    assert ("sees this machine only" in result.get("error", "")) is refused
    assert ("ours" in result.get("content", "")) is not refused
