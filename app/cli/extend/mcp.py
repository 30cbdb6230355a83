"""`hermes mcp`: which servers there are, what they offer, and calls of their tools without a model."""

from __future__ import annotations

import argparse
from typing import Any

from agent.core.home import Home
from app.cli.extend.mcp_arguments import KEY_VALUE


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "mcp",
        help="list, add, check and call servers that bring tools",
        description="List, add and remove MCP servers, see what they offer, and call their tools.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _action(actions, "list", "all servers, and what is known of each")
    _add_add(actions)
    _action(actions, "remove", "take a server out of the settings").add_argument("name", metavar="NAME")
    probe = _action(actions, "probe", "connect to a server and show what it offers")
    probe.add_argument("server", metavar="NAME|URL")
    _add_connection(probe)
    call = _action(actions, "call", "call a tool of a server")
    call.add_argument("server", metavar="NAME|URL")
    call.add_argument("tool", metavar="TOOL")
    call.add_argument(
        "--args", default="{}", metavar="JSON", help="arguments as a JSON object; - reads stdin"
    )
    _add_connection(call)
    trust = _action(actions, "trust", "agree to a server of this project, and to tools that wait for you")
    trust.add_argument("name", metavar="NAME")
    trust.add_argument("--yes", action="store_true", help="do not ask")
    login = _action(actions, "login", "sign in to a server")
    login.add_argument("name", metavar="NAME")
    login.add_argument("--no-browser", action="store_true", help="print the address instead of opening it")
    _action(actions, "logout", "forget what signing in gave").add_argument("name", metavar="NAME")
    actions.add_parser(
        "serve",
        help="offer the sessions of this home to other agents, on stdin and stdout",
        description="Be an MCP server on stdin and stdout: list, search and read sessions, send messages.",
    )
    return parser


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=f"{text.capitalize()}.")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    return parser


def _add_add(actions: Any) -> None:
    add = _action(actions, "add", "add a server to the settings and connect to it once")
    add.add_argument("name", metavar="NAME")
    add.add_argument("--url", metavar="URL", help="address of a server, instead of a command")
    add.add_argument("--transport", choices=("stdio", "http", "sse"), help="how it is spoken to")
    add.add_argument(
        "--env", action="append", default=[], metavar=KEY_VALUE, help="a variable for the command"
    )
    add.add_argument("--header", action="append", default=[], metavar=KEY_VALUE, help="an HTTP header")
    add.add_argument("--no-sandbox", action="store_true", help="start the command outside of the sandbox")
    add.add_argument("--no-probe", action="store_true", help="do not connect to it now")
    add.add_argument(
        "command_line", nargs="*", metavar="COMMAND", help="the command and its arguments, after --"
    )
    plainly = add.parse_known_args

    def with_command(given: Any = None, namespace: Any = None) -> Any:
        """Take what stands behind `--` as it is: argparse loses it where options stand before."""
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


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    home = Home.locate()
    match args.action:
        case "serve":
            from app.cli.extend.mcp_serve import run_serve

            return run_serve(home)
        case "list" | "add" | "remove" | "trust" | "logout":
            from app.cli.extend import mcp_settings as part
        case _:
            from app.cli.extend import mcp_connection as part
    return int(getattr(part, f"run_{args.action}")(home, args))
