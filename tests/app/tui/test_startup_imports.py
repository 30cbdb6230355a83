"""What has been read when the first picture is on the terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import ROOT, environment
from tests.support.terminal import Terminal

HEAVY = {
    *("openai", "mcp", "httpx", "httpx2", "pydantic", "pygments", "markdown_it", "yaml", "sqlite3"),
    *(
        "aiosqlite",
        "tree_sitter",
        "watchdog",
        "PIL",
        "agent.events",
        "agent.session.engine",
        "agent.core.config.loader",
    ),
    *("app.tui.conversation.session_panes", "app.tui.conversation.bridge", "widgets.transcript.view"),
    *("widgets.panes.pane", "widgets.panes.workbench"),
    *("tools.results", "tools.context"),
    *("argparse", "app.cli.command_line", "agent.safety", "hashlib", "shlex", "themes.skin_changes"),
}
WATCHED = """
import json, os, sys
sys.path.insert(0, {root!r})
import app.tui.startup.skeleton
write = os.write
def hear(handed_over):
    from app.tui.terminal.tty_output import TtyOutput
    put = TtyOutput.write
    def noting(self, data):
        if "❯".encode() in data and not os.path.exists({note!r}):
            with open({note!r} + ".new", "w") as file:
                json.dump(sorted(sys.modules), file)
            os.replace({note!r} + ".new", {note!r})
        put(self, data)
    TtyOutput.write = noting
    handed_over()
over = app.tui.startup.skeleton.Skeleton.leave_to_app
app.tui.startup.skeleton.Skeleton.leave_to_app = lambda self: hear(lambda: over(self))
from hermes_launcher import main
sys.exit(main())
"""


def test_nothing_heavy_has_been_read_at_the_first_picture(tmp_path: Path) -> None:
    note = tmp_path / "modules.json"
    program = WATCHED.format(root=str(ROOT), note=str(note))
    command = [sys.executable, "-I", "-c", program, "--model", "demo"]
    with Terminal(command, environment(tmp_path / "home"), tmp_path, (120, 40)) as terminal:
        terminal.until(note.exists)
        read = set(json.loads(note.read_text()))
    assert "textual.app" in read and "widgets.prompt.widget" in read
    assert read & HEAVY == set()


UNUSED = {
    *(
        "trafilatura",
        "lxml",
        "justext",
        "pypdf",
        "ddgs",
        "primp",
        "websockets",
        "playwright",
        "PIL",
        "rapidocr",
    ),
    *("onnxruntime", "numpy", "cv2", "hibari_tts"),
}
"""Libraries of the web, the browser and the senses."""
TURN = """
import atexit, json, sys
sys.path.insert(0, {root!r})
atexit.register(lambda: open({note!r}, "w").write(json.dumps(sorted(sys.modules))))
from hermes_launcher import main
sys.exit(main())
"""


@pytest.mark.thorough
def test_a_turn_reads_no_library_of_the_web_or_the_senses_that_it_does_not_use(tmp_path: Path) -> None:
    note = tmp_path / "modules.json"
    program = TURN.format(root=str(ROOT), note=str(note))
    arguments = ["--model", "demo", "-p", "hi"]
    command = [sys.executable, "-I", "-c", program, *arguments]
    subprocess.run(
        command,
        env=environment(tmp_path / "home"),
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=120,
    )
    read = set(json.loads(note.read_text()))
    assert {
        "agent.session.engine",
        "agent.integrations.senses.service",
        "agent.integrations.web.services",
        "tools.browser.tool",
    } <= read
    assert read & UNUSED == set()
