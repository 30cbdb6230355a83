"""The scripted model server as a child process, for tests of the `hermes` command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]


class ServerProcess:
    """Runs for the length of a `with` block:

        with ServerProcess("script = by_step([say('Hello.')])", tmp_path) as server:
            ...  # server.base_url; server.requests()

    It also ends when the test run does.
    """

    def __init__(self, script: str, folder: Path, *, options: Sequence[str] = ()) -> None:
        """`script` is Python source that defines `script`; everything `model_server` exports is at hand."""
        self._file = folder / "model_script.py"
        self.record = folder / "model_requests.jsonl"
        self._file.write_text(script, encoding="utf-8")
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self.base_url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.support.model_server", "--script", str(self._file)]
        command += ["--record", str(self.record), *self._options]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.base_url = self._process.stdout.readline().strip()
        if not self.base_url:
            self.__exit__()
            raise RuntimeError("the model server did not start; its error is above")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def requests(self) -> list[dict[str, Any]]:
        """`{"body": …, "refused": sentence or null}` for every chat request so far."""
        if not self.record.exists():
            return []
        lines = self.record.read_text(encoding="utf-8").split("\n")
        return [json.loads(line) for line in lines[:-1]]
