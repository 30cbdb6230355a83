"""The progress of pip in a few words: how much is downloaded, the remaining time, later steps.

Reads the output of a command with `--progress-bar raw`. Needs the standard library only, as `make run` uses
it before anything is installed: `python app/tui/terminal/pip_progress.py MEGABYTES COMMAND …`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

_SIZE = re.compile(r"\((\d+(?:\.\d+)?) ?([kMG]?)B\)")
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_RAW_SINCE = (24, 1)
"""The first version of pip with `--progress-bar raw`; older ones only name their downloads."""
_KEPT = 40
"""The number of last lines that are shown when the command fails."""
_IDLE = re.compile(r"WARNING: .*(?:does not provide the extra|is ignored: it is neither)")
"""Warnings about things that the user cannot change, which are not shown."""
_UNBUILT = re.compile(r"Failed (?:to build|building wheel for) '?([\w.-]+)")
_UNREACHED = re.compile(r"NameResolutionError|NewConnectionError|ConnectTimeoutError|ProxyError|SSLError")


class PipProgress:
    """The progress read from pip's output lines."""

    def __init__(self, expected: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`expected` is the number of bytes to download if nothing is installed yet."""
        self._expected = expected
        self._clock = clock
        self._begun = clock()
        self._done = self._current = self._size = 0
        self._name = ""

    def read(self, line: str) -> str:
        """Return the text to show after a line; empty if nothing changed."""
        text = line.strip()
        if text.startswith("Progress ") and len(parts := text.split()) == 4 and parts[1].isdigit():
            self._current = int(parts[1])
            return self._fetching()
        if text.startswith(("Downloading ", "Using cached ")):
            self._done += self._size
            size = _SIZE.search(text)
            self._size = int(float(size[1]) * _UNITS[size[2]]) if size else 0
            self._current = 0
            self._name = text.split()[1 if text.startswith("D") else 2].rpartition("/")[2].partition("-")[0]
            return self._fetching() if text.startswith("D") else ""
        if text.startswith("Installing collected packages"):
            return f"installing {text.count(',') + 1} packages …"
        if text.startswith("Successfully installed"):
            return "installed"
        return ""

    def _fetching(self) -> str:
        done = self._done + self._current
        total = max(self._expected, done)
        words = f"fetching {self._name}: {done / 1e6:.0f} of about {total / 1e6:.0f} MB"
        spent = self._clock() - self._begun
        if spent > 3 and done and total > done:
            left = spent * (total - done) / done
            words += f", {left / 60:.0f} min left" if left >= 90 else f", {left:.0f} s left"
        return words


def run(
    command: Sequence[str], expected: int, show: Callable[[str], None], umask: int = -1
) -> tuple[int, str]:
    """Run a command and pass its progress to `show`; return its exit code and its last lines. Blocks.

    `umask` applies to the command; -1 means that of this process.
    """
    progress, last = PipProgress(expected), ""
    kept: list[str] = []
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        umask=umask,
    )
    assert child.stdout is not None
    with child:
        for line in child.stdout:
            words = progress.read(line)
            if words and words != last:
                last = words
                show(words)
            if line.strip() and not line.startswith("Progress ") and not _IDLE.search(line):
                kept = [*kept[1 - _KEPT :], line.rstrip()]
    return child.returncode, "\n".join(kept)


def failure_hint(said: str) -> str:
    """Return a sentence with cause and remedy for pip's error text; empty if no known cause is found."""
    if unbuilt := _UNBUILT.search(said):
        version = ".".join(map(str, sys.version_info[:2]))
        return (
            f"{unbuilt[1]} has no ready-made build for Python {version} on this system, and could not be "
            "built. Use another Python (in a checkout: make run PYTHON=python3.13), or install what is "
            "missing above, usually a compiler."
        )
    if _UNREACHED.search(said):
        return (
            "The package index was not reached. Check the network, or a proxy (HTTPS_PROXY), and try again."
        )
    return ""


def with_raw_progress(command: Sequence[str]) -> list[str]:
    """Return `command` with machine-readable progress if it is `PYTHON -m pip install …` and that pip
    supports it.
    """
    return [*command, "--progress-bar", "raw"] if _has_raw_progress(command) else list(command)


def _has_raw_progress(command: Sequence[str]) -> bool:
    if list(command[1:3]) != ["-m", "pip"] or "install" not in command:
        return False
    asked = subprocess.run([*command[:3], "--version"], capture_output=True, text=True, errors="replace")
    version = re.match(r"pip (\d+)\.(\d+)", asked.stdout)
    return version is not None and (int(version[1]), int(version[2])) >= _RAW_SINCE


class ProgressLine:
    """Progress on stderr: on a terminal a line that is rewritten, else a new line every few seconds."""

    def __init__(self, lead: str = "  ") -> None:
        self._lead = lead
        self._is_terminal = sys.stderr.isatty()
        self._at = 0.0

    def show(self, words: str) -> None:
        """Show a new text."""
        now = time.monotonic()
        if self._is_terminal:
            print(f"\r\x1b[K{self._lead}{words}", end="", file=sys.stderr, flush=True)
        elif now - self._at > 5 or not words.startswith("fetching"):
            self._at = now
            print(f"{self._lead}{words}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Erase the line on a terminal."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run `COMMAND …` with progress; print its output only if it fails. Return its exit code."""
    line = ProgressLine()
    code, said = run(with_raw_progress(arguments[1:]), int(arguments[0]) * 1_000_000, line.show)
    line.end()
    if code:
        print(said, file=sys.stderr)
        print(failure_hint(said), file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
