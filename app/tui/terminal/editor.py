"""Editing a text in the user's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agent.errors import HermesError
from tools.kit.umask import person_umask

FALLBACK = "vi"
MAX_CHARS = 4_000_000


def edit(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Open `text` in `$VISUAL` or `$EDITOR`, which takes over the terminal; wait for it and return the
    result.

    The text is in a private temporary file meanwhile. Raises `HermesError` if there is no editor, it fails,
    or the result is too long.
    """
    command = environ.get("VISUAL") or environ.get("EDITOR") or FALLBACK
    try:
        words = shlex.split(command)
    except ValueError:
        words = [command]
    with tempfile.TemporaryDirectory(prefix="hermes-draft-") as folder:
        path = Path(folder) / "draft.md"
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            code = subprocess.run([*words, str(path)], check=False, umask=person_umask()).returncode
            edited = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            reason = error.strerror or str(error)
            raise HermesError(f"Cannot use the editor {command!r}: {reason}; set EDITOR.") from error
    if code != 0:
        raise HermesError(f"The editor {command!r} ended with code {code}; the draft is as it was.")
    if len(edited) > MAX_CHARS:
        raise HermesError(f"That is more than {MAX_CHARS:,} characters; put it into a file instead.")
    # Editors add a line feed at the end of a file.
    return edited.removesuffix("\n") if not text.endswith("\n") else edited
