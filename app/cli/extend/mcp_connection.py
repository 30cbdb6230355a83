"""`hermes mcp probe|call|login`: one server without a session."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode
from app.cli.extend.mcp_arguments import servers_of
from app.cli.frame import advise, answer, say, say_json
from themes.states import NEEDS_YOU, glyph
from tools.text.safe_text import reveal

if TYPE_CHECKING:
    from agent.core.home import Home
    from agent.integrations.mcp.server import Server
    from agent.integrations.mcp.server_config import DeclaredServer


def run_probe(home: Home, args: argparse.Namespace) -> None:
    """Connect to a server and print its tools, prompts and resources."""
    found = probe_server(home, _find_server(home, args.server), args)
    if args.as_json:
        say_json(found)
        return
    about = " ".join(filter(None, [found["server"]["name"], found["server"]["version"]])) or "without a name"
    say(f"{found['name']}: {about}, protocol {found['protocol']}, {found['seconds']:.1f} s")
    for tool in found["tools"]:
        mark = glyph("done" if tool["standing"] == "ready" else "needs you")
        said = " ".join(tool["description"].split())[:100]
        say(f"  {mark} {tool['name']}" + (f": {said}" if said else ""))
    for prompt in found["prompts"]:
        say(f"  / {prompt['name']}")
    for problem in found["problems"]:
        say(f"  {glyph('failed')} {problem}")
    if any(tool["standing"] != "ready" for tool in found["tools"]):
        advise(f"What is marked {NEEDS_YOU} waits for you: `hermes mcp trust {found['name']}`.")


def run_call(home: Home, args: argparse.Namespace) -> int:
    """Call one tool."""
    text = sys.stdin.read() if args.args == "-" else args.args
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--args is not JSON: {error}.") from None
    if not isinstance(arguments, dict):
        raise ConfigError("--args takes a JSON object.")

    async def work(server: Server) -> Any:
        await server.request("list", {})
        return await server.request(
            "call_tool", {"name": args.tool, "arguments": arguments}, _progress_printer(args.as_json)
        )

    result = _with_server(home, _find_server(home, args.server), args, work)
    failed = "error" in result
    if args.as_json:
        say_json(result)
    elif failed:
        say(str(result["error"]), sys.stderr)
    else:
        say(str(result.pop("content", "")) or json.dumps(result, ensure_ascii=False))
    return int(ExitCode.FAILED if failed else ExitCode.DONE)


def run_login(home: Home, args: argparse.Namespace) -> None:
    """Sign in again."""
    declared = servers_of(home).find_server(args.name)
    if not declared.config.url:
        raise ConfigError(f"{args.name} is started on this machine; only servers with an address sign in.")

    async def work(server: Server) -> Any:
        return await server.connect()

    _with_server(home, declared, args, work, renew=True)
    answer(args, {"signed_in": args.name}, f"Signed in to {args.name}.")


def probe_server(home: Home, declared: DeclaredServer, args: argparse.Namespace) -> dict[str, Any]:
    """Ask a server for its catalog and store it for sessions that use the server. Raises `HermesError`."""
    from agent.integrations.mcp.catalog import load_catalog, merge_listing, save_catalog

    async def work(server: Server) -> Any:
        return {**await server.connect(), "seconds": server.health.took, **await server.request("list", {})}

    found = _with_server(home, declared, args, work)
    catalog = merge_listing(load_catalog(home.servers, declared.config), found, found["able"])
    if declared in servers_of(home).servers:
        save_catalog(home.servers, declared.config, catalog)
    return {
        "name": declared.config.name,
        "server": {"name": found["name"], "version": found["version"]},
        "protocol": found["protocol"],
        "seconds": round(found["seconds"], 3),
        "able": found["able"],
        "instructions": "" if catalog.instructions is None else catalog.instructions.description,
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "standing": catalog.standing(tool),
            }
            for tool in catalog.tools
        ],
        "prompts": [{"name": each.name, "description": each.description} for each in catalog.prompts],
        "problems": list(catalog.problems),
    }


def _find_server(home: Home, which: str) -> DeclaredServer:
    """Return a server by its name or address. Raises `ConfigError`."""
    from agent.integrations.mcp.server_config import DeclaredServer, address_config

    if which.startswith(("http://", "https://")):
        return DeclaredServer(config=address_config(which), origin="settings")
    declared = servers_of(home).find_server(which)
    if not declared.agreed:
        raise ConfigError(f"Nobody agreed to {which} yet; agree with `hermes mcp trust {which}`.")
    return declared


def _with_server(
    home: Home,
    declared: DeclaredServer,
    args: argparse.Namespace,
    work: Callable[[Server], Awaitable[Any]],
    renew: bool = False,
) -> Any:
    """Connect to a server, run `work` on the connection, and disconnect."""
    from agent.core.config.loader import load
    from agent.integrations.mcp.server import RefusedError, Server, ServerError
    from agent.integrations.mcp.server_config import LaunchEnvironment, launch_of
    from agent.integrations.mcp.server_requests import with_defaults

    here, environ = Path.cwd(), dict(os.environ)
    loaded = load(home, environ, here)
    around = LaunchEnvironment(
        home=home,
        workspace=here,
        files=home.scratch / "mcp",
        sandbox=loaded.settings.sandbox,
        variables=loaded.environ,
        interactive=True,
        protocol=getattr(args, "protocol", "auto"),
        renew=renew,
    )
    config = replace(declared.config, connect_timeout=max(declared.config.start_time, 30.0))

    async def answer(kind: str, params: Any) -> Any:
        match kind:
            case "elicit" if getattr(args, "elicit", "decline") == "defaults":
                return with_defaults(params)
            case "elicit":
                return {"action": "decline"}
            case "sign_in":
                await asyncio.to_thread(_send_to, str(params["url"]), getattr(args, "no_browser", False))
                return {}
        raise RefusedError("no model can be asked from the command line")

    async def main() -> Any:
        server = Server(
            config.name, lambda: launch_of(config, around), around.of_process, answer, _log_handler(args)
        )
        try:
            return await work(server)
        except ServerError as error:
            error.args = (str(error).replace(error.look, ""),)
            raise
        finally:
            await server.close()

    return asyncio.run(main())


def _send_to(url: str, only_print: bool) -> None:
    """Open a URL in the person's browser (`BROWSER` names the program), or only print it."""
    say(f"Sign in at:\n{reveal(url)}", sys.stderr)
    has_screen = any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    if only_print or not (has_screen or sys.platform == "darwin"):
        return
    with suppress(webbrowser.Error):
        webbrowser.open(url)


def _log_handler(args: argparse.Namespace) -> Callable[[str, Mapping[str, Any]], None]:
    def hear(event: str, fields: Mapping[str, Any]) -> None:
        if event == "log" and not args.as_json:
            say(f"{fields.get('level')}: {fields.get('text')}", sys.stderr)

    return hear


def _progress_printer(as_json: bool) -> Callable[[str], None]:
    return lambda text: None if as_json else say(text.rstrip("\n"), sys.stderr)
