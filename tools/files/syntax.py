"""Checking the syntax of a file that was just written, in a process of its own.

A parser can be made to run for minutes or to crash by the text it reads; in a
child process that costs a time limit and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

TIMEOUT = 5.0
"""Seconds a check may take."""
MAX_BYTES = 1_000_000

_KINDS = {
    ".py": "python",
    ".pyi": "python",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".toml": "toml",
}
# Files that are JSON by name but hold comments by custom.
_COMMENTED = ("tsconfig", "jsconfig", ".babelrc", ".eslintrc", "devcontainer")
_CHILD = Path(__file__).with_name("syntax_child.py")


async def check_syntax(path: Path, data: bytes) -> dict[str, Any] | None:
    """`{"status": "ok"}` or `{"status": "error", "line", "message"}`; None for files without a check."""
    kind = _KINDS.get(path.suffix.lower())
    if kind is None or len(data) > MAX_BYTES or not data.strip():
        return None
    if kind == "json" and (path.name.startswith(_COMMENTED) or path.parent.name == ".vscode"):
        return None
    try:
        return await _ask_child(kind, data)
    except OSError:
        return None  # the file is written; that nothing could check it is no failure


async def _ask_child(kind: str, data: bytes) -> dict[str, Any] | None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        str(_CHILD),
        kind,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            output, _ = await process.communicate(data)
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        found = json.loads(output)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
