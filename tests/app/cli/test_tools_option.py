"""`--tools` on the command line: what a session offers and shows to the model."""

from __future__ import annotations

from pathlib import Path

from tests.support import command
from tests.support.model_process import ServerProcess

GREETING = "script = by_step([say('Hello.'), say('Again.')])"
SEARCH = {"tool_search", "tool_call"}


def tool_names(server: ServerProcess) -> set[str]:
    """Return the names of the tools in the newest request."""
    return {each["function"]["name"] for each in server.requests()[-1]["body"].get("tools", ())}


def test_the_named_tools_are_all_that_a_request_shows(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with ServerProcess(GREETING, tmp_path) as server:
        environ = command.environment(tmp_path / "home", server.base_url)
        done = command.run(
            *("-p", "hi", "--tools", "file, todo_write,web_tools", "--json"), env=environ, cwd=work
        )
        assert done.returncode == 0, done.stderr
        first = tool_names(server)
        assert {"read_file", "write_file", "patch", "todo_write", "web_search"} <= first
        assert not first & {"terminal", "execute_code", "memory", "delegate_task"}
        ident = command.events(done.stdout)[0]["session"]

        again = command.run("-p", "on", "--resume", ident, "--tools=read_file", env=environ, cwd=work)
        assert again.returncode == 0, again.stderr
        assert tool_names(server) - SEARCH == {"read_file"}


def test_a_name_that_is_no_tool_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    environ = command.environment(tmp_path / "home", "http://127.0.0.1:9/v1")
    for names, why in (
        ("file,nonsens", "no toolset or tool named nonsens"),
        (" , ", "has to name something"),
    ):
        done = command.run("-p", "hi", "--tools", names, env=environ, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr and "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
