"""Checking the syntax of a file that was just written, in a separate process.

The text can make a parser run for minutes or crash; in a child process, that does no harm beyond the time
limit.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tools.kit.children import run_child

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
    """Return `{"status": "ok"}`, or an error with `message` and `line`; None if the file was not checked."""
    kind = _KINDS.get(path.suffix.lower())
    if kind is None or len(data) > MAX_BYTES or not data.strip():
        return None
    if kind == "json" and (path.name.startswith(_COMMENTED) or path.parent.name == ".vscode"):
        return None
    try:
        return await _ask_child(kind, data)
    except OSError:
        return None  # the file is written; that nothing could check it is not a failure


async def _ask_child(kind: str, data: bytes) -> dict[str, Any] | None:
    try:
        output = await run_child([sys.executable, "-I", str(_CHILD), kind], data, seconds=TIMEOUT, env={})
    except TimeoutError:
        return None
    try:
        found = json.loads(output)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
