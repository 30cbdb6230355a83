"""The name by which the user can call this program: `hermes` if that works, else the path of its script."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from tools.kit.lazy_pattern import lazy_pattern

_CALL = lazy_pattern(
    r"(?<=`)hermes |(?<![\w./-])hermes (?=--\w|model pull|rollback --to|config set|gateway setup)"
)
"""`hermes` as a command in a sentence: in backticks, or followed by text that only follows a command."""


_NAME = r" ([^`\s]+)"
_TYPED = {
    r"`hermes --model NAME`": "`/model NAME`",
    r"`hermes providers`": "`/providers`",
    rf"`hermes providers add{_NAME} --url URL`": "`/providers add`",
    r"`hermes sessions list`": "`/sessions`",
    r"`hermes cron (?:list|log)`": "`/schedule`",
    r"`hermes (learnings|memory|skills) list`": r"`/\1`",
    rf"`hermes plugin (?:list|enable{_NAME})`": "`/plugins`",
    r"`hermes agents check`": "`/agent-kinds`",
    rf"`hermes mcp (?:trust|login){_NAME}`": r"`/mcp \1`, then t",
    rf"`hermes mcp probe{_NAME}`": r"`/mcp \1`",
    rf"`hermes mcp add{_NAME} …`": "`/mcp add`",
    r"`hermes config show`": "`/settings`",
    r"`hermes config set (budget\.[\w.]+) ([^`\s]+)`": r"`/settings` (\1: \2)",
    r"\(in the terminal: /model, then e\)": "(/model, then e)",
    r"name the variable that holds the key: `hermes config set [^`]+`": "enter it (/model, then e)",
}
"""Commands for the command line, as expressions, and what does the same in the application."""


def command_name() -> str:
    """Return `hermes` if the search path leads to this program, else its shortest usable path."""
    script = Path(sys.prefix, "bin", "hermes")
    found = shutil.which("hermes")
    if found is not None and (not script.exists() or Path(found).resolve() == script.resolve()):
        return "hermes"
    if not script.exists():
        return "hermes"
    if script.is_relative_to(here := Path.cwd()):
        return str(script.relative_to(here))
    home = Path.home()
    shown = f"~/{script.relative_to(home)}" if script.is_relative_to(home) else str(script)
    return f"'{script}'" if " " in shown else shown


def as_typed(text: str) -> str:
    """Return a sentence with commands as they can be run, or what does the same in the application."""
    for command, typed in _TYPED.items():
        text = re.sub(command, typed, text)
    return as_called(text)


def as_called(text: str) -> str:
    """Return a sentence in which each `hermes …` has the form in which the user can run it."""
    if "hermes " not in text or (name := command_name()) == "hermes":
        return text
    return _CALL.sub(lambda _found: f"{name} ", text)
