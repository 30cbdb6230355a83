"""What a program has in use as a whole stays as a whole; a single log holds back itself only."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from agent.workspace.checkpoints.databases import DatabaseFinder, database_kinds
from agent.workspace.checkpoints.recorder import StepRecorder
from tests.agent.workspace.checkpoints.conftest import Open, command
from tests.agent.workspace.checkpoints.restore.trees import look, taken_back
from tests.support import data_programs
from tests.support.thorough import thoroughly
from tools.services.actions import RunCommand


class Running:
    """A program of a person, with its data in the workspace."""

    def __init__(self, kind: str, folder: Path, python: str = sys.executable) -> None:
        self.process = subprocess.Popen(
            [python, data_programs.__file__, kind, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == "ready"

    def ask(self, text: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()
        return self._answer()

    @property
    def pids(self) -> list[str]:
        """The program and what it started."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [str(self.process.pid), *children.split()]

    def end(self) -> None:
        assert self.ask("end") == "ended"
        assert self.process.wait() == 0

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def running(kind: str, folder: Path, python: str = sys.executable) -> Iterator[Running]:
    program = Running(kind, folder, python)
    with program.process:
        try:
            yield program
        finally:
            program.process.kill()


async def asked(recorder: StepRecorder, program: Running) -> None:
    """A step that has a running program change its data, and writes a file of its own."""
    recorder.start()
    await recorder.ready()
    async with recorder.during("c", "terminal ask", "session") as recording:
        await recorder.acting("c", RunCommand(tool="terminal", command="ask", cwd=recorder.root))
        program.ask("put b 40")
        (recorder.root / "note").write_text("x")
    assert recording.step is not None


KINDS = ["sqlite-wal", "sqlite-delete", "stand-in-tables", "stand-in-set"]
REAL = ["rocksdb", "leveldb", "lmdb", "lmdb-file", "duckdb"]
SERVERS = {"redis": "redis-server", "postgresql": "initdb"}
PLACES = {"sqlite-wal": "app.db", "sqlite-delete": "app.db", "duckdb": "app.duckdb"}


@pytest.fixture
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The workspace; where PostgreSQL works another user has to come in."""
    if "postgresql" not in request.node.name or os.geteuid():
        (tmp_path / "work").mkdir()
        yield (tmp_path / "work").resolve()
        return
    with tempfile.TemporaryDirectory(dir="/var/lib", prefix="hermes-data-") as made:
        Path(made).chmod(0o755)
        yield Path(made).resolve()


@pytest.fixture(scope="module")
def python_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The interpreter that has the library of a kind; those that are not ours are installed once."""

    def find(kind: str) -> str:
        return (
            str(libraries(tmp_path_factory.getbasetemp() / "libraries")) if kind in REAL else sys.executable
        )

    return find


@cache
def libraries(folder: Path) -> Path:
    python = folder / "bin" / "python"
    install = [python, "-m", "pip", "-q", "install", "rocksdict", "plyvel", "lmdb", "duckdb"]
    for line in ([sys.executable, "-m", "venv", folder], install):
        if subprocess.run(line, check=False).returncode:
            pytest.skip("rocksdict, plyvel, lmdb and duckdb cannot be installed here")
    return python


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [*KINDS, *thoroughly(*REAL, *SERVERS)])
async def test_a_database_that_a_program_has_open_stays_whole_and_is_named_once(
    kind: str, opened: Open, root: Path, python_of: Callable[[str], str]
) -> None:
    if kind in SERVERS and not shutil.which(SERVERS[kind]):
        pytest.skip(f"{SERVERS[kind]} is not installed")
    recorder, python = opened(), python_of(kind)
    with running(kind, root, python) as program:
        program.ask("put a 20")
        await asked(recorder, program)
        answer, before = program.ask("get"), look(root)
        restored = taken_back(recorder, 0)
        assert [item.path for item in restored.skipped] == [PLACES.get(kind, "data")]
        assert any(pid in restored.skipped[0].reason for pid in program.pids)
        assert look(root) == {path: each for path, each in before.items() if path != "note"}
        assert program.ask("get") == answer
        program.end()
    with running(kind, root, python) as program:
        assert program.ask("get") == answer
        program.end()


async def test_a_log_that_is_written_to_holds_back_itself_only(opened: Open, root: Path) -> None:
    recorder = opened()
    with running("log", root) as program:
        program.ask("put a 20")
        await asked(recorder, program)
        answer = program.ask("get")
        restored = taken_back(recorder, 0)
        assert [item.path for item in restored.skipped] == ["app.log"]
        assert not (root / "note").exists()
        assert program.ask("get") == answer


@pytest.mark.parametrize("is_saved", [False, True])
async def test_a_notebook_goes_back_unless_its_program_saved_it_since(
    is_saved: bool, opened: Open, root: Path
) -> None:
    recorder = opened()
    with running("notebook", root) as program:
        program.ask("put a 20")
        answer = program.ask("get")
        await asked(recorder, program)
        if is_saved:
            program.ask("put c 1")
            answer = program.ask("get")
        restored = taken_back(recorder, 0)
        assert [item.path for item in restored.skipped] == ["work.ipynb"] * is_saved
        assert program.ask("get") == answer


async def test_a_database_beside_a_file_does_not_hold_the_file_back(opened: Open, root: Path) -> None:
    (root / "store").mkdir()
    recorder = opened()
    with running("sqlite-wal", root / "store") as program:
        program.ask("put a 20")
        recorder.start()
        await recorder.ready()
        await command(recorder, "echo x >store/report.csv")
        restored = taken_back(recorder, 0)
        assert restored.skipped == ()
        assert not (root / "store" / "report.csv").exists()


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("d/PG_VERSION", "d/global/1", "d/base/1/2", "d/pg_wal/3"), "PostgreSQL"),
        (("d/CURRENT", "d/MANIFEST-000004", "d/000007.sst"), "RocksDB or LevelDB"),
        (("d/WiredTiger", "d/WiredTiger.wt", "d/collection-0.wt"), "MongoDB"),
        (("d/segments_3", "d/_0.si", "d/_0.cfs"), "Lucene"),
        (("d/CURRENT", "d/readme.txt"), ""),
        (("d/conf/a", "d/base/b"), ""),
    ],
)
def test_a_database_is_recognised_by_what_lies_in_its_folder(
    names: tuple[str, ...], kind: str, root: Path
) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("MANIFEST-000004\n")
    for name in names:
        found = DatabaseFinder(root).of(name)
        assert (found.kind.name if found else "") == kind
        # One that is gone is known by what is to come back.
        assert DatabaseFinder(root / "elsewhere", names).of(name) == found


def test_every_kind_of_database_can_be_told_from_its_own_names(root: Path) -> None:
    folders, files = database_kinds()
    for kind in folders:
        names = [f"d/{pattern.replace('*', '1')}" for pattern in kind.has]
        found = DatabaseFinder(root, names).of(names[0])
        assert found is not None
        assert found.kind.name in (kind.name, "RocksDB or LevelDB", "MySQL or MariaDB")
    for kind in files:
        for ending in kind.beside:
            found = DatabaseFinder(root, ["b", f"b{ending}"]).of("b")
            assert found is not None
            assert found.owns(f"b{ending}")
