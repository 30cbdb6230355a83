"""Results of tools: one for the model, and a display for user interfaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tools import ExplainedError
from tools.text.safe_text import clean

Outcome = Literal["done", "failed", "denied", "interrupted"]
"""The end of a call. `failed` covers every `{"error": …}` result."""


class ToolError(ExplainedError):
    """Raised for a failure that the model can react to. The message is one sentence with the fix."""

    def __init__(self, message: str, **extra: object) -> None:
        super().__init__(message)
        self.extra = extra
        """Further fields of the JSON result besides `error`."""


class DeniedError(ToolError):
    """Raised if permission for an action is refused. `extra` has `status: "blocked"` and the reasons."""


@dataclass(frozen=True, slots=True)
class TextDetail:
    """Plain text: output of a command, content of a file. `language` names a lexer or is empty."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class DiffDetail:
    """A unified diff over one or more files."""

    diff: str


Detail = TextDetail | DiffDetail


_ACTIONS = frozenset((
    "ask", "call", "choose", "click", "crawl", "delegate", "draw", "edit", "hear", "learn", "list",
    "look", "open", "press", "print", "read", "recall", "remember", "scroll", "search", "send", "speak",
    "train", "type", "upload", "wait", "write",
))  # fmt: skip
"""Verbs of displays with a regular present participle."""


@dataclass(frozen=True, slots=True)
class Display:
    """How one call is displayed, as data: `✓ read src/money.py 1–80 · 80 lines`.

    `verb` is one short word, `subject` what it acts on, `summary` the outcome (empty while the call runs),
    `detail` what opens on demand. All of it is outside text: a user interface must not read it as markup.
    """

    verb: str
    subject: str
    summary: str = ""
    detail: Detail | None = None
    picture: str = ""
    """Path of a picture that the call made or read, as given to tools; empty if there is none."""
    exit_code: int | None = None
    """The code with which a program ended; None if none ran or it still runs."""

    def activity(self) -> str:
        """Return what happens while the call runs: `Running cargo test`, `Reading src/money.py`."""
        verb = "" if self.verb == "run" else self.verb
        words = f"{verb.removesuffix('e')}ing".capitalize() if verb in _ACTIONS else f"Running {verb}".strip()
        return f"{words} {self.subject}".strip()


def error_text(result: Mapping[str, Any] | None) -> str:
    """Return why a call failed, for its display; empty while it runs."""
    return clean(str(result["error"])) if result else ""
