"""`hermes mcp`: list servers and their tools, and call tools without a model."""

from __future__ import annotations

import argparse
from typing import Any

from agent.core.home import Home
from app.cli.extend.mcp_arguments import KEY_VALUE
from app.cli.frame import add_action, add_actions

DESCRIPTION = "List, add and remove MCP servers, see what they offer, and call their tools."


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand."""
    actions = add_actions(parser)
    add_action(actions, "list", "all servers, and what is known of each", run)
    _add_add(actions)
    add_action(actions, "remove", "take a server out of the settings", run).add_argument(
        "name", metavar="NAME"
    )
    probe = add_action(actions, "probe", "connect to a server and show what it offers", run)
    probe.add_argument("server", metavar="NAME|URL")
    _add_connection(probe)
    call = add_action(actions, "call", "call a tool of a server", run)
    call.add_argument("server", metavar="NAME|URL")
    call.add_argument("tool", metavar="TOOL")
    call.add_argument(
        "--args", default="{}", metavar="JSON", help="arguments as a JSON object; - reads stdin"
    )
    _add_connection(call)
    trust = add_action(
        actions, "trust", "agree to a server of this project, and to tools that wait for you", run
    )
    trust.add_argument("name", metavar="NAME")
    trust.add_argument("--yes", action="store_true", help="do not ask")
    login = add_action(actions, "login", "sign in to a server", run)
    login.add_argument("name", metavar="NAME")
    login.add_argument("--no-browser", action="store_true", help="print the address instead of opening it")
    add_action(actions, "logout", "forget what signing in gave", run).add_argument("name", metavar="NAME")
    serve = add_action(
        actions, "serve", "offer the sessions of this home to other agents, on stdin and stdout", run, json=""
    )
    serve.description = "Be an MCP server on stdin and stdout: list, search and read sessions, send messages."


def _add_add(actions: Any) -> None:
    add = add_action(actions, "add", "add a server to the settings and connect to it once", run)
    add.add_argument("name", metavar="NAME")
    add.add_argument("--url", metavar="URL", help="address of a server, instead of a command")
    add.add_argument("--transport", choices=("stdio", "http", "sse"), help="how it is spoken to")
    add.add_argument(
        "--env", action="append", default=[], metavar=KEY_VALUE, help="a variable for the command"
    )
    add.add_argument("--header", action="append", default=[], metavar=KEY_VALUE, help="an HTTP header")
    add.add_argument("--no-sandbox", action="store_true", help="start the command outside of the sandbox")
    add.add_argument(
        "--writable", action="append", default=[], metavar="PATH", help="a folder that it may change"
    )
    add.add_argument("--no-probe", action="store_true", help="do not connect to it now")
    add.add_argument(
        "command_line", nargs="*", metavar="COMMAND", help="the command and its arguments, after --"
    )
    plainly = add.parse_known_args

    def with_command(given: Any = None, namespace: Any = None) -> Any:
        """Take the arguments after `--` unchanged: argparse loses the `--` when options come before it."""
        words: list[str] = list(given or [])
        at = words.index("--") if "--" in words else len(words)
        found, more = plainly(words[:at], namespace)
        found.command_line = [*found.command_line, *words[at + 1 :]]
        return found, more

    setattr(add, "parse_known_args", with_command)  # noqa: B010


def _add_connection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--protocol",
        choices=("auto", "2025-11-25", "2026-07-28"),
        default="auto",
        help="protocol to speak; auto finds out what the server takes",
    )
    parser.add_argument(
        "--elicit",
        choices=("defaults", "decline"),
        default="decline",
        help="answer to forms that the server sends: their defaults, or no",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address to sign in at")


def run(args: argparse.Namespace) -> int | None:
    """Run the chosen action. Raises `HermesError`."""
    home = Home.locate()
    match args.action:
        case "serve":
            from app.cli.extend.mcp_serve import run_serve

            return run_serve(home)
        case "list" | "add" | "remove" | "trust" | "logout":
            from app.cli.extend import mcp_settings as part
        case _:
            from app.cli.extend import mcp_connection as part
    return getattr(part, f"run_{args.action}")(home, args)
