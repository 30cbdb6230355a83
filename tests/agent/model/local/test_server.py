"""The life of the model's process, with the real child script and a stand-in for the library."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from agent.errors import ConfigError, HermesError
from agent.model.local.server import LocalServer

LIBRARY = """
import os, sys, time

class Node:
    pass

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = Node(), Node(), Node()

class Server:
    def __init__(self, params):
        print("noise of a C library on standard output", flush=True)
        os.write(2, b"x" * 300_000)
        with open(params.model.path, "rb") as file:
            what = file.read()[4:].decode()
        if what == "missing memory":
            raise RuntimeError("ggml: failed to allocate buffer of size 99")
        if what == "damaged":
            os.write(2, b"gguf_init_from_reader: failed to read key-value pairs\\n")
            raise RuntimeError("Failed to init server, please check the input params.")
        if what == "killed":
            os.kill(os.getpid(), 9)
        if what == "slow":
            time.sleep(600)
        facts = [params.cpuparams.n_threads, params.cpuparams.poll, params.n_ctx, params.n_parallel]
        with open(params.model.path + ".facts", "w") as file:
            print(facts, params.api_keys, params.hostnames, params.port, file=file)
        self.listening_address = "http://127.0.0.1:4711"
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "site"
    (folder / "standin_llama").mkdir(parents=True)
    (folder / "standin_llama" / "__init__.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder)
    return "standin_llama"


def model(tmp_path: Path, behaviour: str = "") -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + behaviour.encode())
    return path


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_gone(pid: int) -> bool:
    for _ in range(200):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


async def test_a_started_server_tells_its_address_and_key(tmp_path: Path, library: str) -> None:
    said: list[str] = []
    server = LocalServer(model(tmp_path), 2, 4096, progress=said.append, library=library)
    endpoint = await server.start()
    try:
        assert endpoint.base_url == "http://127.0.0.1:4711/v1"
        facts = (tmp_path / "m.gguf.facts").read_text().strip()
        assert facts == f"[2, 0, 4096, 1] ['{endpoint.token}'] ['127.0.0.1'] 0"
        assert len(endpoint.token) > 30
        assert said[0].startswith("Loading m.gguf with 2 threads")
        assert "ready" in said[-1]
    finally:
        await server.stop()


async def test_every_start_has_another_key(tmp_path: Path, library: str) -> None:
    tokens = set()
    for _ in range(2):
        server = LocalServer(model(tmp_path), library=library)
        tokens.add((await server.start()).token)
        await server.stop()
    assert len(tokens) == 2


async def test_the_key_is_in_no_argument_and_no_variable(
    tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-of-the-user")
    server = LocalServer(model(tmp_path), library=library)
    endpoint = await server.start()
    try:
        process = Path(f"/proc/{server.pid}")
        seen = process.joinpath("cmdline").read_bytes() + process.joinpath("environ").read_bytes()
        assert endpoint.token.encode() not in seen
        assert b"sk-of-the-user" not in seen
    finally:
        await server.stop()


async def test_stop_leaves_no_process_and_may_be_called_twice(tmp_path: Path, library: str) -> None:
    server = LocalServer(model(tmp_path), library=library)
    await server.start()
    pid = server.pid
    assert pid is not None and alive(pid)
    assert server.running
    await server.stop()
    await server.stop()
    assert not alive(pid)
    assert server.pid is None


async def test_a_child_that_died_is_noticed(tmp_path: Path, library: str) -> None:
    server = LocalServer(model(tmp_path), library=library)
    await server.start()
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    async with asyncio.timeout(30):
        while server.running:
            await asyncio.sleep(0.01)
    await server.stop()


async def test_a_start_that_is_given_up_leaves_no_process(tmp_path: Path, library: str) -> None:
    server = LocalServer(model(tmp_path, "slow"), library=library)
    starting = asyncio.create_task(server.start())
    async with asyncio.timeout(30):
        while server.pid is None:
            await asyncio.sleep(0.01)
    pid = server.pid
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not alive(pid)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("behaviour", "cause"),
    [
        ("missing memory", "not enough memory"),
        ("damaged", "incomplete or damaged"),
        ("killed", "lack of memory"),
    ],
)
async def test_a_failed_load_names_cause_and_mend(
    tmp_path: Path, library: str, behaviour: str, cause: str
) -> None:
    server = LocalServer(model(tmp_path, behaviour), library=library)
    with pytest.raises(HermesError, match=f"m.gguf could not be loaded: .*{cause}"):
        await server.start()
    assert server.pid is None


async def test_a_child_that_says_nothing_sensible_is_reported(tmp_path: Path, library: str) -> None:
    script = tmp_path / "child.py"
    script.write_text("import sys; print('[1, 2'); sys.exit('out of\\x1b[31m luck')")
    server = LocalServer(model(tmp_path), child=script, library=library)
    with pytest.raises(HermesError, match="ended with code 1"):
        await server.start()


async def test_a_file_that_is_no_model_is_refused_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no model")
    with pytest.raises(ConfigError, match="not a GGUF file"):
        await LocalServer(path).start()


async def test_a_missing_file_names_the_command_that_fetches_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="hermes model pull"):
        await LocalServer(tmp_path / "none.gguf").start()


async def test_a_missing_library_names_the_extra(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="extras add local"):
        await LocalServer(model(tmp_path), library="no_such_library_here").start()


async def test_a_library_that_cannot_be_imported_names_the_extra(tmp_path: Path, library: str) -> None:
    source = tmp_path / "site" / library / "__init__.py"
    source.write_text("raise ImportError('libgomp.so.1: cannot open shared object file')")
    with pytest.raises(ConfigError, match=r"extras add local.*libgomp"):
        await LocalServer(model(tmp_path), library=library).start()


async def test_a_model_larger_than_the_memory_is_refused(tmp_path: Path, library: str) -> None:
    path = model(tmp_path)
    os.truncate(path, 1 << 43)  # sparse: it takes no room
    with pytest.raises(ConfigError, match=r"needs about .* GB of memory"):
        await LocalServer(path, library=library).start()


@pytest.mark.sample(1)
@pytest.mark.parametrize("behaviour", ["", "slow"], ids=["ready", "loading"])
def test_the_child_dies_with_a_killed_parent(tmp_path: Path, library: str, behaviour: str) -> None:
    path = model(tmp_path, behaviour)
    parent_script = textwrap.dedent(f"""
        import asyncio, sys
        sys.path[:0] = {[str(Path.cwd()), str(tmp_path / "site")]!r}
        from pathlib import Path
        from agent.model.local.server import LocalServer

        async def main():
            server = LocalServer(Path({str(path)!r}), library={library!r})
            starting = asyncio.create_task(server.start())
            while server.pid is None or ({behaviour == ""} and not starting.done()):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5 if {behaviour == "slow"} else 0)
            print(server.pid, flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
    """)
    with subprocess.Popen([sys.executable, "-c", parent_script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(signal.SIGKILL)
    assert wait_gone(pid)


async def test_ctrl_c_at_the_terminal_does_not_reach_the_child(tmp_path: Path, library: str) -> None:
    server = LocalServer(model(tmp_path), library=library)
    await server.start()
    try:
        assert server.pid is not None
        assert os.getpgid(server.pid) != os.getpgid(0)
    finally:
        await server.stop()
