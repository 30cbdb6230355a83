"""Programs that keep their data in a folder, each run as a child process that answers on its pipes.

`python data_programs.py KIND FOLDER`: reads `put PREFIX COUNT`, `get`, `end` from its input, one a line.
`get` answers with the number of keys and a digest of all of them. Real libraries; the kinds named
`stand-in-…` hold files the way such a library does.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import importlib
import json
import mmap
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Pairs = Iterable[tuple[str, str]]


class Program:
    """What a program does with its folder."""

    def put(self, pairs: Pairs) -> None:
        raise NotImplementedError

    def get(self) -> Pairs:
        raise NotImplementedError

    def end(self) -> None:
        pass


class Sqlite(Program):
    """One file in WAL or in rollback mode, kept open."""

    def __init__(self, folder: Path, mode: str = "wal") -> None:
        self.base = sqlite3.connect(folder / "app.db")
        self.base.execute(f"pragma journal_mode={mode}")
        self.base.execute("create table if not exists t(k text primary key, v text)")
        self.base.commit()

    def put(self, pairs: Pairs) -> None:
        self.base.executemany("insert or replace into t values(?, ?)", list(pairs))
        self.base.commit()

    def get(self) -> Pairs:
        return self.base.execute("select k, v from t order by k").fetchall()

    def end(self) -> None:
        self.base.close()


class Rocks(Program):
    """RocksDB by rocksdict."""

    def __init__(self, folder: Path) -> None:
        self.base: Any = importlib.import_module("rocksdict").Rdict(str(folder / "data"))

    def put(self, pairs: Pairs) -> None:
        for key, value in pairs:
            self.base[key] = value
        self.base.flush()
        self.base.compact_range(None, None)

    def get(self) -> Pairs:
        return sorted(self.base.items())

    def end(self) -> None:
        self.base.close()


class Level(Program):
    """LevelDB by plyvel."""

    def __init__(self, folder: Path) -> None:
        self.base: Any = importlib.import_module("plyvel").DB(str(folder / "data"), create_if_missing=True)

    def put(self, pairs: Pairs) -> None:
        for key, value in pairs:
            self.base.put(key.encode(), value.encode())
        self.base.compact_range()

    def get(self) -> Pairs:
        return [(key.decode(), value.decode()) for key, value in self.base]

    def end(self) -> None:
        self.base.close()


class Lmdb(Program):
    """LMDB, as a folder or as one file."""

    def __init__(self, folder: Path, subdir: bool = True) -> None:
        lmdb: Any = importlib.import_module("lmdb")
        self.base = lmdb.open(str(folder / "data"), subdir=subdir, map_size=64_000_000)

    def put(self, pairs: Pairs) -> None:
        with self.base.begin(write=True) as change:
            for key, value in pairs:
                change.put(key.encode(), value.encode())

    def get(self) -> Pairs:
        with self.base.begin() as look:
            return [(bytes(key).decode(), bytes(value).decode()) for key, value in look.cursor()]

    def end(self) -> None:
        self.base.close()


class Duck(Program):
    """DuckDB."""

    def __init__(self, folder: Path) -> None:
        self.base: Any = importlib.import_module("duckdb").connect(str(folder / "app.duckdb"))
        self.base.execute("create table if not exists t(k varchar primary key, v varchar)")

    def put(self, pairs: Pairs) -> None:
        self.base.executemany("insert or replace into t values(?, ?)", [list(pair) for pair in pairs])

    def get(self) -> Pairs:
        return self.base.execute("select k, v from t order by k").fetchall()

    def end(self) -> None:
        self.base.close()


class Redis(Program):
    """A server of Redis that logs each change, asked by its own client."""

    def __init__(self, folder: Path) -> None:
        (folder / "data").mkdir(exist_ok=True)
        self.socket = Path(tempfile.mkdtemp()) / "redis"
        settings = {"dir": folder / "data", "port": 0, "unixsocket": self.socket, "appendonly": "yes"}
        words = [str(word) for name, value in settings.items() for word in (f"--{name}", value)]
        # It ends with us, however that is.
        stop = ctypes.CDLL(None).prctl
        self.server = subprocess.Popen(
            ["redis-server", *words], stdout=subprocess.DEVNULL, preexec_fn=lambda: stop(1, signal.SIGKILL)
        )
        while self._ask("ping") != "PONG":
            assert self.server.poll() is None
            time.sleep(0.02)

    def _ask(self, *words: str, text: str = "") -> str:
        line = ["redis-cli", "-s", str(self.socket), *words]
        return subprocess.run(line, input=text, capture_output=True, text=True, check=False).stdout.strip()

    def put(self, pairs: Pairs) -> None:
        self._ask(text="".join(f"set {key} {value}\n" for key, value in pairs))

    def get(self) -> Pairs:
        keys = sorted(self._ask("keys", "*").split())
        return list(zip(keys, self._ask("mget", *keys).split(), strict=True)) if keys else []

    def end(self) -> None:
        self._ask("shutdown")
        self.server.wait()


class Notebook(Program):
    """A notebook saved as Jupyter does it: whole, beside the old one and then in its place."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "work.ipynb"

    def _cells(self) -> dict[str, str]:
        cells = json.loads(self.path.read_text())["cells"] if self.path.exists() else []
        return {each["id"]: each["source"] for each in cells}

    def put(self, pairs: Pairs) -> None:
        cells = [
            {"cell_type": "code", "id": k, "source": v} for k, v in (self._cells() | dict(pairs)).items()
        ]
        beside = self.path.with_name(f".~{self.path.name}")
        beside.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}, indent=1))
        beside.replace(self.path)

    def get(self) -> Pairs:
        return sorted(self._cells().items())


class Postgres(Program):
    """A server of PostgreSQL, asked by its own client; it never runs as root."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.sockets = tempfile.mkdtemp()
        Path(self.sockets).chmod(0o777)
        self.user: dict[str, Any] = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        if not self.data.exists():
            self.data.mkdir(0o700)
            os.chown(self.data, *(self.user.values() or (-1, -1)))
            words = ["initdb", "-A", "trust", "-U", "u", "-N", "--wal-segsize=1", "-D", self.data]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, cwd="/", **self.user)
        stop = ctypes.CDLL(None).prctl
        words = ["postgres", "-D", self.data, "-k", self.sockets, "-h", "", "-F"]
        self.server = subprocess.Popen(
            words, stderr=subprocess.DEVNULL, cwd="/", preexec_fn=lambda: stop(1, signal.SIGKILL), **self.user
        )
        while self._ask("create table if not exists t(k text primary key, v text)").returncode:
            assert self.server.poll() is None
            time.sleep(0.05)

    def _ask(self, text: str) -> subprocess.CompletedProcess[str]:
        line = ["psql", "-qAtX", "-h", self.sockets, "-U", "u", "-v", "ON_ERROR_STOP=1", "template1"]
        return subprocess.run(line, input=text, capture_output=True, text=True, check=False, cwd="/")

    def put(self, pairs: Pairs) -> None:
        rows = ",".join(f"('{key}', '{value}')" for key, value in pairs)
        self._ask(f"insert into t values {rows}; checkpoint")

    def get(self) -> Pairs:
        lines = self._ask("select k, v from t order by k").stdout.splitlines()
        return [(line.split("|")[0], line.split("|")[1]) for line in lines]

    def end(self) -> None:
        self.server.send_signal(signal.SIGINT)
        self.server.wait()


class Log(Program):
    """A file that is appended to for as long as the program runs."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "app.log"
        self.file = self.path.open("a")

    def put(self, pairs: Pairs) -> None:
        self.file.writelines(f"{key}\t{value}\n" for key, value in pairs)
        self.file.flush()

    def get(self) -> Pairs:
        lines = self.path.read_text().splitlines()
        return sorted((line.split("\t")[0], line.split("\t")[1]) for line in lines)

    def end(self) -> None:
        self.file.close()


class Tables(Program):
    """A stand-in for RocksDB and LevelDB: tables are mapped and closed, LOCK and MANIFEST stay open.

    With `known` the folder has the names that tell the kind; without, it is a set like any other.
    """

    def __init__(self, folder: Path, known: bool = True) -> None:
        self.folder = folder / "data"
        self.folder.mkdir(exist_ok=True)
        self.lock = (self.folder / "LOCK").open("a+")
        fcntl.lockf(self.lock, fcntl.LOCK_EX)
        self.manifest = (self.folder / ("MANIFEST-000001" if known else "tables.list")).open("a")
        if known:
            (self.folder / "CURRENT").write_text("MANIFEST-000001\n")
        self.maps: list[mmap.mmap] = []
        self.tables = [self._read(name) for name in self._names()]

    def _names(self) -> list[str]:
        return Path(self.manifest.name).read_text().split()

    def _read(self, name: str) -> dict[str, str]:
        with (self.folder / name).open("rb") as file:
            self.maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return json.loads(self.maps[-1][:])

    def put(self, pairs: Pairs) -> None:
        merged = {key: value for table in self.tables for key, value in table.items()} | dict(pairs)
        names = self._names()
        name = f"{len(list(self.folder.iterdir())):06}-{os.urandom(2).hex()}.sst"
        (self.folder / name).write_text(json.dumps(merged))
        # Compaction: one new table in place of the old ones.
        self.manifest.truncate(0)
        self.manifest.write(f"{name}\n")
        self.manifest.flush()
        for old in names:
            (self.folder / old).unlink()
        self.tables = [self._read(name)]

    def get(self) -> Pairs:
        return sorted(pair for table in self.tables for pair in table.items())

    def end(self) -> None:
        self.lock.close()


KINDS: dict[str, Callable[[Path], Program]] = {
    "sqlite-wal": Sqlite,
    "sqlite-delete": lambda folder: Sqlite(folder, "delete"),
    "rocksdb": Rocks,
    "leveldb": Level,
    "lmdb": Lmdb,
    "lmdb-file": lambda folder: Lmdb(folder, subdir=False),
    "duckdb": Duck,
    "redis": Redis,
    "postgresql": Postgres,
    "notebook": Notebook,
    "log": Log,
    "stand-in-tables": Tables,
    "stand-in-set": lambda folder: Tables(folder, known=False),
}


def main(kind: str, folder: Path) -> None:
    """Serve until `end`, or until the input ends."""
    program = KINDS[kind](folder)
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "put":
            program.put((f"{words[1]}{number:05}", f"{number * 7}") for number in range(int(words[2])))
            print("put", flush=True)
        elif words[0] == "get":
            pairs = [tuple(pair) for pair in program.get()]
            print(len(pairs), hashlib.sha256(repr(pairs).encode()).hexdigest(), flush=True)
        else:
            program.end()
            print("ended", flush=True)
            return


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
