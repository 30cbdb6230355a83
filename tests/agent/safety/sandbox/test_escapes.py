"""Attempts to get out. Each one is real: it would succeed without the boundary."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agent.safety.sandbox.cell import PYTHON, Cell
from tests.agent.safety.sandbox.kinds import WITH_NAMESPACES
from tools.sandbox import Need

SECRET = "PRIVATE KEY"

WRITES = {
    "a new file": "echo x > {out}/new",
    "a changed file": "echo x > {out}/file",
    "a file that is appended to": "echo x >> {out}/file",
    "a truncated file": "truncate -s 0 {out}/file",
    "a file moved out": "echo x > a; mv a {out}/new",
    "a file moved in": "mv {out}/file .",
    "a removed file": "rm -f {out}/file",
    "a symbolic link followed": "ln -s {out} link; echo x > link/new",
    "a hard link written through": "ln {out}/file hard && echo x > hard",
    "a folder made": "mkdir {out}/folder",
    "dots in the path": "echo x > {ws}/../../outside/new",
    "a way through proc": "echo x > /proc/self/root{out}/new",
    "a start-up file": "echo evil >> {user}/.bashrc",
    "a new start-up file": "echo evil > {user}/.profile",
    "keys for logging in": "echo key >> {user}/.ssh/authorized_keys",
    "a secret that does not exist yet": "mkdir -p {user}/.aws; echo x > {user}/.aws/credentials",
    "our settings": "echo 'approvals: {{mode: all}}' > {user}/.hermes/config.yaml",
    "our permissions": "echo x > {user}/.hermes/permissions.yaml",
    "our store": "echo x > {user}/.hermes/state.db",
    "the times of a file": 'python3 -I -c \'open("{out}/file", "r+").write("x")\'',
}

READS = {
    "a private key": "cat {user}/.ssh/id_ed25519",
    "a private key by a link": "ln -s {user}/.ssh/id_ed25519 k; cat k",
    "a private key by a hard link": "ln {user}/.ssh/id_ed25519 k; cat k",
    "a private key by proc": "cat /proc/self/root{user}/.ssh/id_ed25519 /proc/self/cwd/../.ssh/id_ed25519",
    "logins": "cat {user}/.netrc",
    "our store": "cat {user}/.hermes/state.db",
    "our settings": "cat {user}/.hermes/config.yaml",
    "the memory of the parent": "cat /proc/{pid}/environ /proc/{pid}/maps",
    "the root of the parent": "cat /proc/{pid}/root{user}/.ssh/id_ed25519",
    "the folder of the parent": "ls /proc/{pid}/cwd/ && echo PRIVATE KEY",
    "the files of the parent": "ls -l /proc/{pid}/fd/ && echo PRIVATE KEY",
    "the memory of the machine": "head -c 1 /dev/mem && echo PRIVATE KEY",
    "a disk": "for d in /dev/vd* /dev/sd* /dev/loop*; do head -c 1 $d && echo PRIVATE KEY; done",
    "the list of keys": "ls {user}/.ssh | grep id_ed25519 && echo PRIVATE KEY",
}

LIBC = "import ctypes, os; L = ctypes.CDLL(None, use_errno=True); r = -1\n"
CALLS = {
    "tracing the parent": "r = L.ptrace(16, {pid}, 0, 0)",
    "reading the parent's memory": "b = ctypes.create_string_buffer(8)\n"
    "class V(ctypes.Structure): _fields_ = [('p', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"
    "v = V(ctypes.addressof(b), 8); w = V(0x400000, 8)\n"
    "r = L.process_vm_readv({pid}, ctypes.byref(v), 1, ctypes.byref(w), 1, 0)",
    "a signal to the parent": "r = L.kill({pid}, 0)",
    "a signal by descriptor": "f = L.syscall(434, {pid}, 0)\n"
    "r = L.syscall(424, f, 0, None, 0) if f >= 0 else -1",
    "a mount": "r = L.mount(b'none', b'{ws}', b'tmpfs', 0, None)",
    "an unmount": "r = L.umount2(b'/run', 2)",
    "a remount": "r = L.mount(None, b'/', None, 32 | 4096, None)",
    "another root": "r = L.chroot(b'{ws}')",
    "a pivot": "r = L.syscall(155, b'{ws}', b'{ws}')",
    "a user namespace": "r = L.unshare(0x10000000)",
    "a mount namespace": "r = L.unshare(0x20000)",
    "a namespace of the parent": "f = os.open('/proc/1/ns/mnt', 0); r = L.setns(f, 0)",
    "a clone in a new namespace": "r = L.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "a clone by the newer call": "a = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17)\n"
    "r = L.syscall(435, ctypes.byref(a), 64)",
    "a file by handle": "a = ctypes.create_string_buffer(136); a[0] = 128; m = ctypes.c_int()\n"
    "r = L.syscall(303, -100, b'/', ctypes.byref(a), ctypes.byref(m), 0)",
    "a program in the kernel": "a = ctypes.create_string_buffer(128); r = L.syscall(321, 0, a, 128)",
    "another ring of calls": "a = ctypes.create_string_buffer(128); r = L.syscall(425, 1, a)",
    "page faults handled": "r = L.syscall(323, 0)",
    "keys of the kernel": "r = L.syscall(250, 0, -3, 0)",
    "a module": "r = L.syscall(175, b'', 0, b'')",
    "a new kernel": "r = L.syscall(246, 0, 0, None, 0)",
    "watching the processor": "a = ctypes.create_string_buffer(128); r = L.syscall(298, a, 0, -1, -1, 0)",
    "the name of the machine": "r = L.sethostname(b'evil', 4)",
    "the clock": "r = L.syscall(227, 0, None)",
    "a disk as a file": "r = L.mknod(b'disk', 0o60600, os.makedev(254, 0))",
    "a swap file": "r = L.swapon(b'{ws}/x', 0)",
    "more rights": "r = L.prctl(24, 0, 0, 0, 0) if 0 else L.setuid(12345)\nr = -1 if os.geteuid() else r",
}

SOCKETS = {
    "a stream to the host": "s = socket.socket(); s.settimeout(2); s.connect(('127.0.0.1', {port}))",
    "a datagram": "s = socket.socket(2, 2); s.sendto(b'x', ('192.0.2.1', 53))",
    "a datagram of the newer protocol": "s = socket.socket(10, 2); s.sendto(b'x', ('2001:db8::1', 53))",
    "a raw socket": "s = socket.socket(2, 3, 1)",
    "a packet socket": "s = socket.socket(17, 3)",
    "the machine's own events": "s = socket.socket(16, 3, 15)",
    "the audit of the machine": "s = socket.socket(16, 3, 9)",
    "a virtual machine's host": "s = socket.socket(40, 1)",
    "the kernel's ciphers": "s = socket.socket(38, 5)",
    "an abstract socket of the host": "s = socket.socket(1); s.connect('\\0' + '{abstract}')",
    "the agent of keys": "s = socket.socket(1); s.connect('{out}/agent.sock')",
    "the socket of another child": "s = socket.socket(1); s.connect('{user}/.hermes/run/rpc.sock')",
    "a socket of the system": "s = socket.socket(1); s.connect('/run/hermes-test.sock')",
}


def fill(cell: Cell, text: str, **more: object) -> str:
    names = {"out": cell.outside, "ws": cell.workspace, "user": cell.user, "pid": os.getpid(), **more}
    return text.format(**names)


@pytest.mark.parametrize("attempt", WRITES)
def test_nothing_outside_is_changed_by(cell: Cell, attempt: str):
    before = picture(cell)
    cell.shell(fill(cell, WRITES[attempt]))
    assert picture(cell) == before


@pytest.mark.parametrize("attempt", READS)
def test_nothing_secret_is_read_by_way_of(cell: Cell, attempt: str):
    ended = cell.shell(fill(cell, READS[attempt]))
    for secret in (SECRET, "machine secret", "STORED WORDS", "approvals:", "PATH="):
        assert secret not in ended.output


@pytest.mark.parametrize("attempt", CALLS)
def test_the_kernel_refuses(cell: Cell, attempt: str):
    code = fill(cell, CALLS[attempt])
    ended = cell.python(
        f"{LIBC}try:\n"
        + "".join(f"  {line}\n" for line in code.splitlines())
        + ("except OSError: r = -1\nprint('RESULT', 'refused' if r < 0 else 'passed')")
    )
    assert "RESULT refused" in ended.output, ended.output


@pytest.fixture
def listeners(cell: Cell) -> Iterator[dict[str, object]]:
    """Sockets of the host that somebody answers on."""
    (cell.user / ".hermes" / "run").mkdir()
    made = []
    paths = [cell.outside / "agent.sock", cell.user / ".hermes" / "run" / "rpc.sock"]
    system = Path("/run/hermes-test.sock")
    if os.access("/run", os.W_OK):
        system.unlink(missing_ok=True)
        paths.append(system)
    abstract = f"hermes-{os.getpid()}-{time.monotonic_ns()}"
    for address in (*map(str, paths), "\0" + abstract):
        one = socket.socket(socket.AF_UNIX)
        one.bind(address)
        one.listen()
        made.append(one)
    net = socket.create_server(("127.0.0.1", 0))
    yield {"port": net.getsockname()[1], "abstract": abstract}
    for one in (*made, net):
        one.close()
    system.unlink(missing_ok=True)


@pytest.mark.parametrize("attempt", SOCKETS)
def test_no_way_out_is(cell: Cell, listeners: dict[str, object], attempt: str):
    code = fill(cell, SOCKETS[attempt], **listeners)
    ended = cell.python(
        f"import socket\ntry:\n  {code}\n  print('RESULT passed')\nexcept OSError: print('RESULT refused')"
    )
    assert "RESULT refused" in ended.output, ended.output


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


def test_settings_of_the_kernel_cannot_be_written(cell: Cell):
    # Writing back what is there changes nothing, and is refused all the same.
    setting = Path("/proc/sys/kernel/printk_ratelimit_burst")
    ended = cell.shell(f"echo {setting.read_text().strip()} > {setting} && echo written")
    assert "written" not in ended.output


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
    with subprocess.Popen(["sleep", "60"]) as bystander:
        cell.shell("kill -9 -1; sleep 0.1")
        assert bystander.poll() is None
        bystander.kill()


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


def test_running_from_memory_gets_no_further(cell: Cell):
    before = picture(cell)
    ended = cell.python(
        "import os\nf = os.memfd_create('x'); os.write(f, open('/bin/sh', 'rb').read())\n"
        f"os.execve(f, ['sh', '-c', 'echo in; echo x > {cell.outside}/new'], {{}})"
    )
    assert ended.output.startswith("in\n") and picture(cell) == before


def picture(cell: Cell) -> dict[str, tuple[str, int]]:
    """All files outside the workspace with their content and mode."""
    return {
        str(path): (path.read_text(errors="replace"), path.stat().st_mode)
        for path in sorted(cell.root.rglob("*"))
        if path.is_file()
        and not path.is_relative_to(cell.workspace)
        and not path.is_relative_to(cell.private)
    }
