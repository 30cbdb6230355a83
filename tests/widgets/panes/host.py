"""A small application around the workbench, and sample content."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual.app import App, ComposeResult
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from themes.skin import NIGHT, Skin
from tools.context import Todo
from tools.results import Display
from widgets.palette import Palette
from widgets.panes.agents import AgentRow, AgentsPane, Pulse
from widgets.panes.files import FilesPane, PaneFileChange
from widgets.panes.log import LogPane
from widgets.panes.pane import PaneBar
from widgets.panes.status import StatusBar, StatusFigures
from widgets.panes.todo import TodoPane
from widgets.panes.workbench import Workbench

NIGHTLY = Palette(Skin())
PAPER = Palette(
    Skin(
        name="paper",
        dark=False,
        colors={
            **NIGHT,
            "background": "#faf7f0",
            "surface": "#f1ece0",
            "text": "#2b2a27",
            "dim": "#6b675e",
            "accent": "#1f5fbf",
            "rule": "#b9b1a0",
            "success": "#2f7a32",
            "warning": "#8a5a00",
            "error": "#b3261e",
            "selection": "#cfdcf2",
            "match": "#f3df9b",
            "cursor": "#2b2a27",
            "added": "#2f7a32",
            "removed": "#b3261e",
        },
    )
)
AT = datetime(2026, 3, 4, 14, 2, 11)

TODOS = (
    Todo("1", "Reproduce with a failing test", "completed"),
    Todo("2", "Find where rounding happens", "completed"),
    Todo("3", "Use Decimal in money.round() and keep its signature", "in_progress"),
    Todo("4", "Check the other callers", "pending"),
    Todo("5", "Drop the shim", "cancelled"),
    Todo("6", "Run the whole suite", "pending"),
)
AGENTS = (
    AgentRow(
        agent="a1",
        name="callers",
        state="running",
        goal="Find every caller of money.round()",
        action="reading api/views.py",
        pulse=Pulse(((70, 0), (82, 1_900), (88, 3_100), (96, 8_100))),
        seconds=42,
        calls=11,
        tokens=8100,
        budget=0.5,
        cost=0.03,
    ),
    AgentRow(agent="a2", name="history", state="waiting", action="asks a question", seconds=12, calls=1),
    AgentRow(agent="a3", name="docs", state="done", action="4 findings"),
)
STATUS = StatusFigures(
    title="fix-rounding",
    folder="payments-api",
    branch="main",
    model="qwen3-coder",
    context_used=61_000,
    context_window=100_000,
    cost=0.42,
    cache=0.97,
)


class Host(App[None]):
    """Status bar, workbench with all panes, and something to type in."""

    BINDINGS = [("alt+j", "jump", "Jump")]  # noqa: RUF012

    def __init__(self, palette: Palette = NIGHTLY, *, filled: bool = True) -> None:
        super().__init__()
        self.look = palette
        self.filled = filled
        self.seen: list[Message] = []
        self.seconds = 100.0
        self.status = StatusBar(clock=lambda: self.seconds)
        self.status.motion = False
        self.todo = TodoPane()
        self.agents = AgentsPane(clock=lambda: self.seconds)
        self.files = FilesPane()
        self.calls = LogPane(clock=lambda: self.seconds, now=lambda: AT)
        self.main = Static("The conversation.", markup=False)
        self.main.can_focus = True
        self.main.styles.height = "1fr"
        self.prompt = Static(" ❯ and add a line", markup=False)
        self.prompt.can_focus = True
        panes = [self.todo, self.agents, self.files, self.calls]
        self.bench = Workbench(self.main, panes, PaneBar())

    def compose(self) -> ComposeResult:
        yield self.status
        yield self.bench
        yield self.prompt

    def on_mount(self) -> None:
        colors = self.look.skin.colors
        self.screen.styles.background = colors["background"]
        self.screen.styles.color = colors["text"]
        self.status.use(self.look)
        self.bench.use(self.look)
        self.bench.add_jump_target("prompt", self.prompt)
        self.prompt.focus()
        if self.filled:
            self.fill()

    def fill(self) -> None:
        self.status.show(STATUS)
        self.todo.show(TODOS)
        self.agents.show(AGENTS)
        self.files.record(
            [PaneFileChange("src/money.py", 6, 3, "diff"), PaneFileChange("docs/changes.md", 1, 0, "diff")]
        )
        fill_log(self.calls)

    def action_jump(self) -> None:
        self.bench.action_jump()

    def on_files_pane_ignored_asked(self) -> None:
        changes = [
            PaneFileChange("build/app.js", 0, 0, "", "added"),
            PaneFileChange("src/money.py", 6, 3, ""),
        ]
        self.files.show_ignored(changes)

    def note(self, message: Message) -> None:
        self.seen.append(message)

    on_agents_pane_opened = on_agents_pane_asked = on_log_pane_opened = on_files_pane_opened = note
    on_workbench_state_changed = on_status_bar_chosen = note


def fill_log(log: LogPane) -> None:
    log.start("1", "terminal", Display("terminal", "pytest -q tests/money"))
    log.finish("1", "failed", 1.93, Display("terminal", "pytest -q tests/money", "exit 1"))
    log.start("2", "read_file", Display("read", "src/money.py 1–80"))
    log.finish("2", "done", 0.02, Display("read", "src/money.py 1–80", "80 lines"))
    log.start("3", "execute_code", Display("code", "sweep callers"))
    log.start("3a", "search", Display("search", '"round(" *.py'), parent="3")
    log.finish("3a", "done", 0.1, Display("search", '"round(" *.py', "14 hits"))
    log.start("4", "write_file", Display("write", "docs/x.md"))
    log.finish("4", "denied", None, Display("write", "docs/x.md", "outside"))
    log.start("3b", "read_file", Display("read", "src/api/views.py"), parent="3")


def lines(widget: Widget) -> list[str]:
    """What a widget shows, line by line, without trailing blanks."""
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


def shown(widget: Widget) -> str:
    """What a widget shows, as one text."""
    return "\n".join(lines(widget))


def bare(texts: Sequence[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip()]
