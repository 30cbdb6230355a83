"""Cost of starting a command in the boundary of a session, beside a plain `bwrap … true` in the same run.

`draw`: processor time of drawing the boundary, on the event loop of a session. `true`: from there
until `/bin/true` inside has ended; `floor`: the same for bubblewrap with the root folder alone. Both take
turns and the quickest of each counts, so that the ratio holds on a busy machine too.

    python benchmarks/shell_call.py [--rounds 40] [--files 100]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.core.config.schema import SandboxSettings
from agent.core.home import Home
from agent.safety.sandbox.boundary import SessionBoundary
from agent.safety.sandbox.opening import open_boundary
from tools.services.sandbox import Need

_FLOOR = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--", "/bin/true")


def _workspace(root: Path, files: int) -> Path:
    """Return a repository with this number of files, a hundred in each folder."""
    workspace = root / "project"
    for number in range(files):
        path = workspace / f"d{number // 100}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    return workspace


def _start(boundary: SessionBoundary, workspace: Path) -> tuple[float, float]:
    """Return the seconds of drawing the boundary, and of the whole start until `true` has ended."""
    began, cpu = time.perf_counter(), time.process_time()
    wrapped = boundary.wrap(["/bin/true"], Need())
    drawn = time.process_time() - cpu
    try:
        environ = {"PATH": os.defpath, **wrapped.env}
        subprocess.run(wrapped.argv, pass_fds=wrapped.fds, env=environ, cwd=workspace, check=True)
        return drawn, time.perf_counter() - began
    finally:
        wrapped.started()
        wrapped.ended()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--files", type=int, default=100)
    options = parser.parse_args()
    program = shutil.which("bwrap")
    if program is None:
        raise SystemExit("bubblewrap is not installed; install it to measure this.")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        workspace = _workspace(root, options.files)
        for name in ("home", "scratch"):
            (root / name).mkdir()
        boundary = open_boundary(
            SandboxSettings.model_validate({}), Home(root / "home"), workspace, root / "scratch", os.environ
        )
        boundary.prepare()
        try:
            drawn: list[float] = []
            whole: list[float] = []
            floor: list[float] = []
            for _ in range(options.rounds):
                for found, seconds in zip((drawn, whole), _start(boundary, workspace), strict=True):
                    found.append(seconds)
                began = time.perf_counter()
                subprocess.run([program, *_FLOOR], check=True)
                floor.append(time.perf_counter() - began)
        finally:
            boundary.close()
    a, b, c = (min(each) * 1e3 for each in (drawn, whole, floor))
    print(f"draw {a:.1f} ms   true {b:.1f} ms   floor {c:.1f} ms   true/floor {b / c:.2f}")


if __name__ == "__main__":
    main()
