"""The environment of the tests, whatever the shell they are started in says; made when this is imported.

Whoever tests another one (a locale, a terminal without colours, no home) sets it for that test.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from pathlib import Path

KEPT = ("PATH", "TMPDIR", "PYENV_ROOT", "VIRTUAL_ENV", "CI", "COVERAGE_PROCESS_START")
"""Variables that a run keeps, and all that begin with one of `KEPT_BEGINNINGS`."""
KEPT_BEGINNINGS = ("PYTEST_", "PYTHON", "HERMES_TEST_", "PIP_", "HYPOTHESIS_", "TEXTUAL_SNAPSHOT_")
PINNED = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "TERM": "xterm-256color",
    "COLORTERM": "truecolor",
    "SHELL": "/bin/sh",
    "USER": "tester",
    "LOGNAME": "tester",
}
HERMES_HOME = os.environ.get("HERMES_HOME") or str(Path.home() / ".hermes")
"""The home folder of the person, for tests with the weights that lie there."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are if nothing says so."""


def _pin() -> None:
    """Make the environment of this process, and so of its children, the one above; its home is empty."""
    kept = {
        name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_BEGINNINGS)
    }
    home = tempfile.mkdtemp(prefix="hermes-tests-home-")
    owner = os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(home, ignore_errors=True))
    os.environ.clear()
    os.environ.update({"PATH": PATH, **kept, **PINNED, "HOME": home})
    time.tzset()


_pin()
