"""Attempts to get out. Each one is real: it would succeed without the boundary."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.agent.safety.sandbox.attempts import CALLS, READS, SETTINGS, SOCKETS, WRITES
from tests.agent.safety.sandbox.cell import PYTHON, Cell, Ended, picture, room
from tests.agent.safety.sandbox.kinds import KINDS, WITH_NAMESPACES
from tools.services.sandbox import Need

SECRETS = ("PRIVATE KEY", "machine secret", "STORED WORDS", "approvals:", "PATH=")
NO = {f"refused {name}" for name in ("EPERM", "EACCES", "ENOSYS", "ESRCH", "ENOENT")}
"""How the kernel refuses without having looked at the arguments."""


@dataclass(frozen=True)
class Report:
    """How each attempt ended, by its name, and the attempts after which something outside was different."""

    ended: Mapping[str, Ended]
    changed: Mapping[str, str]


@pytest.fixture(scope="module", params=list(KINDS))
def report(request: pytest.FixtureRequest) -> Report:
    """All attempts, made one after the other by one child inside."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        cell = Cell(KINDS[request.param], stack.enter_context(room()), patch)
        open_to_all = stack.enter_context(_listeners(cell))
        attempt = stack.enter_context(cell.prisoner())
        names = {"out": cell.outside, "ws": cell.workspace, "user": cell.user, "pid": os.getpid()}
        every = [("shell", WRITES | READS), ("python", CALLS | SOCKETS)]
        ended: dict[str, Ended] = {}
        changed: dict[str, str] = {}
        before = picture(cell)
        for language, attempts in every:
            for name, text in attempts.items():
                ended[name] = attempt(language, text.format(**names, **open_to_all))
                after = picture(cell)
                if after != before:
                    changed[name] = f"{before} became {after}"
                before = after
        for name, path in SETTINGS.items():
            value = Path(path).read_text().strip()
            ended[name] = attempt("shell", f"echo {value} > {path} && echo written")
        return Report(ended, changed)


@contextmanager
def _listeners(cell: Cell) -> Iterator[dict[str, object]]:
    """Sockets of the host that somebody answers on."""
    (cell.user / ".hermes" / "run").mkdir()
    paths = [cell.outside / "agent.sock", cell.user / ".hermes" / "run" / "rpc.sock"]
    system = Path(f"/run/hermes-test-{os.getpid()}.sock")
    if os.access("/run", os.W_OK):
        paths.append(system)
    abstract = f"hermes-{os.getpid()}-{time.monotonic_ns()}"
    with ExitStack() as stack:
        for address in (*map(str, paths), "\0" + abstract):
            one = stack.enter_context(socket.socket(socket.AF_UNIX))
            one.bind(address)
            one.listen()
        net = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        yield {"port": net.getsockname()[1], "abstract": abstract, "system": system}
        system.unlink(missing_ok=True)


@pytest.mark.thorough
def test_the_one_who_tries_can_work_at_all(report: Report):
    assert len(report.ended) == len(WRITES | READS | CALLS | SOCKETS | SETTINGS)
    assert {ended.code for ended in report.ended.values()} != {0}


@pytest.mark.sample(54)
@pytest.mark.parametrize("attempt", WRITES)
def test_nothing_outside_is_changed_by(report: Report, attempt: str):
    assert attempt not in report.changed


@pytest.mark.parametrize("attempt", READS)
def test_nothing_secret_is_read_by_way_of(report: Report, attempt: str):
    assert not [secret for secret in SECRETS if secret in report.ended[attempt].output]


@pytest.mark.sample(73)
@pytest.mark.parametrize("attempt", CALLS)
def test_the_kernel_refuses(report: Report, attempt: str):
    # In a user namespace without that user there is no such id.
    unmapped = {"refused EINVAL"} if attempt == "more rights" else set()
    assert report.ended[attempt].output in NO | unmapped


@pytest.mark.parametrize("attempt", SOCKETS)
def test_no_way_out_is(report: Report, attempt: str):
    assert report.ended[attempt].output.startswith("refused")


@pytest.mark.parametrize("attempt", SETTINGS)
def test_nobody_inside_writes(report: Report, attempt: str):
    ended = report.ended[attempt]
    assert ended.code != 0 and "written" not in ended.output


@pytest.mark.sample(2)
def test_an_abstract_socket_is_out_of_reach_with_the_network_on(make_cell: Callable[..., Cell]):
    cell = make_cell(network="on")
    name = f"hermes-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        ended = cell.python(
            f"import socket\ntry:\n  socket.socket(1).connect('\\0{name}'); print('passed')\n"
            "except OSError: print('refused')"
        )
    assert ended.output == "refused\n"


@pytest.mark.sample(2)
@pytest.mark.parametrize("request_number", ["0x5412", "0x541C"])
def test_nothing_is_typed_into_a_terminal(cell: Cell, request_number: str):
    ours, theirs = os.openpty()
    wrapped = cell.boundary.wrap([], Need(terminal=os.ttyname(theirs), dies_with_parent=True))
    code = (
        f"import fcntl, os\nf = os.open({wrapped.terminal!r}, os.O_RDWR)\n"
        f"try: fcntl.ioctl(f, {request_number}, b'x'); print('passed')\nexcept OSError: print('refused')"
    )
    with subprocess.Popen(
        [*wrapped.argv, PYTHON, "-I", "-c", code],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cell.workspace,
        pass_fds=wrapped.fds,
        start_new_session=True,
    ) as child:
        child.wait(20)
        said = os.read(ours, 1000)
    wrapped.started()
    wrapped.ended()
    os.close(ours)
    os.close(theirs)
    assert said == b"refused\r\n"


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_killing_everybody_kills_only_those_inside(cell: Cell):
    # Where the process space were the machine's, the rest of the machine should not pay for it.
    own = os.readlink("/proc/self/ns/pid")
    with subprocess.Popen(["sleep", "60"]) as bystander:
        ended = cell.shell(f'[ "$(readlink /proc/self/ns/pid)" = "{own}" ] || {{ echo alone; kill -9 -1; }}')
        lives = bystander.poll() is None
        bystander.kill()
    assert lives and ended.output.startswith("alone")


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
def test_a_fork_bomb_stays_below_the_limit(cell: Cell):
    ended = cell.python(
        "import os, time\nmade = 0\ntry:\n  for _ in range(500):\n"
        "    if os.fork() == 0: time.sleep(3); os._exit(0)\n"
        "    made += 1\nexcept OSError: pass\nprint('made', made, flush=True); os._exit(0)"
    )
    assert int(ended.output.split()[1]) < 60


def test_programs_that_change_the_user_do_not(cell: Cell):
    ended = cell.shell("grep NoNewPrivs /proc/self/status; cp /bin/id own; chmod u+s own; ./own -u")
    assert ended.output.split() == ["NoNewPrivs:", "1", str(os.getuid())]


@pytest.mark.sample(2)
def test_running_from_memory_gets_no_further(cell: Cell):
    before = picture(cell)
    ended = cell.python(
        "import os\nf = os.memfd_create('x'); os.write(f, open('/bin/sh', 'rb').read())\n"
        f"os.execve(f, ['sh', '-c', 'echo in; echo x > {cell.outside}/new'], {{}})"
    )
    assert ended.output.startswith("in\n") and picture(cell) == before
