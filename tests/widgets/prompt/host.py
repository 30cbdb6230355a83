"""A small application around a prompt, which keeps what the prompt tells it."""

from __future__ import annotations

from pathlib import Path

from textual.app import App, ComposeResult
from textual.message import Message
from textual.widgets import Static

from widgets.prompt.completion import CommandChoice
from widgets.prompt.history import History
from widgets.prompt.widget import Prompt

COMMANDS = [
    CommandChoice("help", "Keys and commands"),
    CommandChoice("model", "Choose the model that answers", "<name>"),
    CommandChoice("sessions", "Open, rename or export a session"),
    CommandChoice("skin", "Change the look", "<name>"),
    CommandChoice("undo", "Take back the last change to files"),
    CommandChoice("compact", "Make room in the context"),
    CommandChoice("rollback", "Go back to a checkpoint", "<checkpoint>"),
    CommandChoice("cost", "What this session has cost"),
    CommandChoice("mcp", "Servers and their health"),
    CommandChoice("quit", "Leave"),
]
FILES = ("src/money.py", "src/api/views.py", "tests/test_money.py", "docs/money notes.md", "README.md")


class Host(App[None]):
    """The prompt at the bottom, a conversation above."""

    CSS = """
    Screen { layout: vertical; background: #14161b; }
    #conversation { height: 1fr; color: #8b92a0; background: #14161b; }
    Prompt { margin: 0 1; }
    """

    def __init__(self, *, vi: bool = False, history: Path | None = None) -> None:
        super().__init__()
        self.prompt = Prompt(
            placeholder="Ask for anything; / for commands, @ for files",
            commands=COMMANDS,
            files_provider=lambda: FILES,
            history=History(history),
            vi=vi,
        )
        self.told: list[Message] = []
        self.keys: list[str] = []

    def compose(self) -> ComposeResult:
        yield Static("\n".join(f"conversation, line {n}" for n in range(60)), id="conversation")
        yield self.prompt

    def on_mount(self) -> None:
        self.prompt.focus()

    def on_key(self, event) -> None:
        self.keys.append(event.key)

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        self.told.append(event)

    def on_prompt_editor_requested(self, event: Prompt.EditorRequested) -> None:
        self.told.append(event)

    def on_prompt_queue_recalled(self, event: Prompt.QueueRecalled) -> None:
        self.told.append(event)

    def on_prompt_queue_removed(self, event: Prompt.QueueRemoved) -> None:
        self.told.append(event)

    @property
    def sent(self) -> list[tuple[str, str]]:
        return [(m.kind, m.text) for m in self.told if isinstance(m, Prompt.Submitted)]
