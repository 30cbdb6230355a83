"""The adapters of cloud providers, over packages that do what is documented with processes of our own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.terminal.conftest import Task, processes_with
from tests.tools.terminal.far import far_task, place
from tools.terminal.backends.options import DaytonaOptions, ModalOptions


class _Stdin:
    """Bytes are sent by `drain`, as documented."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        self._pipe = process.stdin
        self._waiting = b""
        self._ends = False

    def write(self, data: bytes) -> None:
        self._waiting += data

    def write_eof(self) -> None:
        self._ends = True

    def drain(self) -> None:
        self._pipe.write(self._waiting)
        self._pipe.flush()
        self._waiting = b""
        if self._ends:
            self._pipe.close()


class _ModalProcess:
    def __init__(self, argv: tuple[str, ...], started: list[subprocess.Popen[bytes]]) -> None:
        self.process = subprocess.Popen(argv, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL)
        started.append(self.process)
        self.stdin = _Stdin(self.process)

    @property
    def stdout(self) -> Iterator[bytes]:
        assert self.process.stdout is not None
        while data := os.read(self.process.stdout.fileno(), 1000):
            yield data

    def poll(self) -> int | None:
        return self.process.poll()


class _ModalSandbox:
    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.started: list[subprocess.Popen[bytes]] = []
        self.is_terminated = False

    def exec(self, *argv: str, text: bool, pty: bool) -> _ModalProcess:
        assert not text
        return _ModalProcess(argv, self.started)

    def terminate(self) -> None:
        self.is_terminated = True
        _end(self.started)


def _end(started: list[subprocess.Popen[bytes]]) -> None:
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


@pytest.fixture
def modal(monkeypatch: pytest.MonkeyPatch) -> list[_ModalSandbox]:
    made: list[_ModalSandbox] = []

    def create(**asked: Any) -> _ModalSandbox:
        made.append(_ModalSandbox(asked))
        return made[-1]

    package = types.ModuleType("modal")
    package.__dict__.update(
        App=types.SimpleNamespace(lookup=lambda name, create_if_missing: (name, create_if_missing)),
        Image=types.SimpleNamespace(from_registry=lambda tag: f"image {tag}"),
        Sandbox=types.SimpleNamespace(create=create),
    )
    monkeypatch.setitem(sys.modules, "modal", package)
    return made


class _Handle:
    """A terminal with a shell at its prompt, which echoes what is typed."""

    def __init__(self, started: list[subprocess.Popen[bytes]]) -> None:
        self._ours, theirs = os.openpty()
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", 'exec <>"$1" >&0 2>&1; exec sh -i', "sh", os.ttyname(theirs)],
            start_new_session=True,
            env={"PATH": os.environ["PATH"], "PS1": "$ ", "HOME": "/tmp"},
        )
        started.append(self._process)
        # Held open here until the shell has ended: it may not have opened it yet.
        threading.Thread(target=lambda: (self._process.wait(), os.close(theirs)), daemon=True).start()

    def wait_for_connection(self, timeout: float) -> None:
        assert timeout > 0

    def send_input(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._ours, data) :]

    def wait(self, on_data: Any) -> Any:
        while True:
            try:
                data = os.read(self._ours, 1000)
            except OSError:
                break
            if not data:
                break
            on_data(data)
        return types.SimpleNamespace(exit_code=self._process.wait())

    def kill(self) -> None:
        self._process.kill()

    def disconnect(self) -> None:
        self._process.wait()
        os.close(self._ours)


class _Daytona:
    made: list[_Daytona]

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []
        self.parameters: Any = None
        self.deleted: list[Any] = []
        self.made.append(self)

    def create(self, parameters: Any) -> Any:
        self.parameters = parameters
        process = types.SimpleNamespace(create_pty_session=lambda id, pty_size: _Handle(self.started))
        return types.SimpleNamespace(process=process)

    def delete(self, sandbox: Any) -> None:
        self.deleted.append(sandbox)


@pytest.fixture
def daytona(monkeypatch: pytest.MonkeyPatch) -> list[_Daytona]:
    _Daytona.made = []
    package = types.ModuleType("daytona")
    package.__dict__.update(
        Daytona=_Daytona,
        PtySize=lambda rows, cols: (rows, cols),
        CreateSandboxFromImageParams=lambda **given: given,
        CreateSandboxFromSnapshotParams=lambda **given: given,
    )
    monkeypatch.setitem(sys.modules, "daytona", package)
    return _Daytona.made


async def _works(task: Task) -> None:
    assert await task.output("X=1; cd /usr; echo one") == "one\n"
    assert await task.output("echo $X; pwd") == "1\n/usr\n"
    assert (await task.run("exit 5"))["exit_code"] == 5
    stopped = await task.run("setsid sleep 4723.25 & sleep 4723.25", timeout=1)
    assert (stopped["exit_code"], processes_with("4723.25")) == (124, [])
    id = (await task.run("read -r line; echo got $line", background=True))["session_id"]
    await task.process("submit", id, data="this")
    ended = await task.process("wait", id, timeout=100)
    assert "got this" in ended["output"]


@pytest.mark.thorough
async def test_commands_run_in_a_sandbox_of_modal(tmp_path: Path, modal: list[_ModalSandbox]):
    own = ModalOptions(image="img:1", cpus=2, memory=512, lifetime=99, network=False)
    task = far_task(place("modal", tmp_path, own), tmp_path)
    await _works(task)
    await task.context.terminals.aclose()
    assert [each.asked for each in modal] == [
        {
            "app": ("hermes", True),
            "image": "image img:1",
            "timeout": 99,
            "block_network": True,
            "cpu": 2,
            "memory": 512,
        }
    ]
    assert modal[0].is_terminated


async def test_commands_run_in_a_sandbox_of_daytona(tmp_path: Path, daytona: list[_Daytona]):
    task = far_task(place("daytona", tmp_path, DaytonaOptions(image="img:1", lifetime=5)), tmp_path)
    await _works(task)
    await task.context.terminals.aclose()
    assert [each.parameters for each in daytona] == [
        {"image": "img:1", "auto_stop_interval": 5, "ephemeral": True}
    ]
    assert len(daytona[0].deleted) == 1


@pytest.mark.parametrize(
    ("raised", "said"),
    [("AuthError", "Modal does not know you"), ("NotFoundError", "Modal could not start a sandbox of x")],
)
async def test_what_a_provider_refuses_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modal: list[_ModalSandbox], raised: str, said: str
):
    def lookup(name: str, create_if_missing: bool) -> None:
        raise type(raised, (Exception,), {})("\x1b]0;x\x07no such thing\nat all")

    monkeypatch.setattr(sys.modules["modal"].App, "lookup", lookup)
    task = far_task(place("modal", tmp_path, ModalOptions(image="x")), tmp_path)
    sentence = (await task.run("true"))["error"]
    assert sentence.startswith(said)
    assert not set(sentence) & set("\x1b\n")
    await task.context.terminals.aclose()
