"""`hermes mcp`: list servers and their tools, and call tools without a model."""

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

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode, HermesError
from app.cli.frame import add_action, add_actions, advise, agreed_by, answer, say, say_json
from themes.states import NEEDS_YOU, glyph
from tools.text.safe_text import clean, reveal
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.integrations.mcp.catalog import ServerCatalog, ToolDefinition
    from agent.integrations.mcp.server import Server
    from agent.integrations.mcp.server_config import DeclaredServer, DeclaredServers

KEY_VALUE = "NAME=VALUE"


def servers_of(home: Home) -> DeclaredServers:
    """Return all MCP servers declared for the current folder: in settings, by the project or by plugins."""
    from agent.core.config.loader import load
    from agent.integrations.mcp.server_config import declared_servers
    from agent.session.wiring.plugin_servers import with_plugin_servers

    here = Path.cwd()
    declared = declared_servers(load(home, dict(os.environ), here).settings, home.servers, here)
    return with_plugin_servers(declared, home, here)


def parsed_pairs(given: list[str], what: str) -> dict[str, str]:
    """Parse `NAME=VALUE` texts into a mapping; `what` names the option. Raises `ConfigError`."""
    found = {}
    for each in given:
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise ConfigError(f"{what} takes {KEY_VALUE}, not {each!r}.")
        found[name] = value
    return found


def run_probe(home: Home, args: argparse.Namespace) -> None:
    """Connect to a server and print its tools, prompts and resources. Raises `HermesError`."""
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
    """Call one tool and print its result; return an exit code. Raises `HermesError`."""
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

    result = _with_whole_text(_with_server(home, _find_server(home, args.server), args, work))
    failed = "error" in result
    if args.as_json:
        say_json(result)
    elif failed:
        say(str(result["error"]), sys.stderr)
    else:
        if text := str(result.pop("content", "")):
            say(text)
        if result:
            say(json.dumps(result, ensure_ascii=False))
    return int(ExitCode.FAILED if failed else ExitCode.DONE)


def _with_whole_text(result: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's result with a long text in it, instead of in the file that a model would read."""
    if not (path := result.get("full_result")):
        return result
    file = Path(path)
    text = file.read_text(encoding="utf-8")
    file.unlink()
    whole = {key: each for key, each in result.items() if key not in ("full_result", "characters", "hint")}
    return {**whole, ("error" if "error" in result else "content"): text}


def run_login(home: Home, args: argparse.Namespace) -> None:
    """Sign in to a server, replacing a stored sign-in. Raises `HermesError`."""
    declared = servers_of(home).find_server(args.name)
    if not declared.config.url:
        raise ConfigError(f"{args.name} is started on this machine; only servers with an address sign in.")

    async def work(server: Server) -> Any:
        return await server.connect()

    _with_server(home, declared, args, work, renew=True)
    answer(args, {"signed_in": args.name}, f"Signed in to {args.name}.")


def probe_server(home: Home, declared: DeclaredServer, args: argparse.Namespace) -> dict[str, Any]:
    """Fetch a server's catalog, store it if the server is declared, and return it. Raises `HermesError`."""
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
    """Return a server by its name or URL. Raises `ConfigError`, also for a server not approved yet."""
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
    """Run `work` on a connection to a server, disconnect, and return the result. Raises `HermesError`."""
    import tempfile

    from agent.core.config.loader import load
    from agent.integrations.mcp.server import RefusedError, Server, ServerError
    from agent.integrations.mcp.server_config import LaunchEnvironment, launch_of
    from agent.integrations.mcp.server_requests import with_defaults

    here, environ = Path.cwd(), dict(os.environ)
    loaded = load(home, environ, here)
    around = LaunchEnvironment(
        home=home,
        workspace=here,
        # A user, or the agent whose command this is, can read files there, and removes them.
        files=here if os.access(here, os.W_OK) else Path(tempfile.gettempdir()),
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
    """Print a sign-in URL; unless `only_print`, also open it if there is a browser to show it."""
    say(f"Sign in at:\n{reveal(url)}", sys.stderr)
    has_screen = any(os.environ.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"))
    if only_print or not (has_screen or sys.platform == "darwin"):
        return
    with suppress(webbrowser.Error):
        webbrowser.open(url)


def _log_handler(args: argparse.Namespace) -> Callable[[str, Mapping[str, Any]], None]:
    def print_record(event: str, fields: Mapping[str, Any]) -> None:
        if event == "log" and not args.as_json:
            say(f"{fields.get('level')}: {fields.get('text')}", sys.stderr)

    return print_record


def _progress_printer(as_json: bool) -> Callable[[str], None]:
    return lambda text: None if as_json else say(text.rstrip("\n"), sys.stderr)


MOST_LINES = 400
"""The number of lines that are shown of a tool not approved yet."""


def run_list(home: Home, args: argparse.Namespace) -> None:
    """Print all servers and what is known of them, without connecting to any."""
    from agent.integrations.mcp.catalog import load_catalog

    declared = servers_of(home)
    known = [(each, load_catalog(home.servers, each.config)) for each in declared.servers]
    if args.as_json:
        shown = [_as_data(each, catalog) for each, catalog in known]
        say_json({"servers": shown, "problems": list(declared.problems)})
        return
    for problem in declared.problems:
        say(problem, sys.stderr)
    for each, catalog in known:
        say(_line(each, catalog))
        for tool in catalog.parked_tools() if catalog is not None else ():
            advise(f"    ▲ {tool.name} waits for `hermes mcp trust {each.config.name}`")
    if not known:
        advise("There are no MCP servers; add one with `hermes mcp add NAME -- COMMAND` or `--url URL`.")


def run_add(home: Home, args: argparse.Namespace) -> int:
    """Add a server to config.yaml and fetch its catalog once; return an exit code."""
    from agent.integrations.mcp.server_config import add_server

    entry: dict[str, Any] = {}
    if args.command_line:
        entry["command"], entry["args"] = args.command_line[0], args.command_line[1:]
    if args.url:
        entry["url"] = args.url
    if args.transport:
        entry["transport"] = args.transport
    if env := parsed_pairs(args.env, "--env"):
        entry["env"] = env
    if headers := parsed_pairs(args.header, "--header"):
        entry["headers"] = headers
    if args.no_sandbox:
        entry["sandbox"] = False
    if args.writable:
        entry["writable"] = args.writable
    add_server(home, servers_of(home), args.name, entry)
    if args.no_probe:
        answer(args, {"added": args.name}, f"Added {args.name}.")
        return int(ExitCode.DONE)
    try:
        found = probe_server(home, servers_of(home).find_server(args.name), args)
    except HermesError as error:
        say(f"Added {args.name}, but: {error}", sys.stderr)
        return int(error.exit_code)
    count = len(found["tools"])
    answer(args, {"added": args.name, **found}, f"Added {args.name}, with {plural(count, 'tool')}.")
    return int(ExitCode.DONE)


def run_remove(home: Home, args: argparse.Namespace) -> None:
    """Remove a server from config.yaml and delete its stored data. Raises `ConfigError`."""
    from agent.core.config.edit import drop_entry
    from agent.integrations.mcp.catalog import forget_catalog

    server = servers_of(home).find_server(args.name)
    if server.origin == "project":
        raise ConfigError(f"{args.name} comes with this project; take it out of its .mcp.json.")
    if server.origin == "plugin":
        plugin = args.name.partition(".")[0]
        raise ConfigError(
            f"{args.name} comes with a plugin; switch that off with `hermes plugin disable {plugin}`."
        )
    drop_entry(home, ("mcp_servers", args.name))
    forget_catalog(home.servers, server.config)
    _tokens(home, server).forget()
    answer(args, {"removed": args.name}, f"Removed {args.name}.")


def run_trust(home: Home, args: argparse.Namespace) -> int:
    """Ask for approval of a server of the project, or of new and changed tools; return an exit code."""
    from agent.integrations.mcp.catalog import load_catalog, save_catalog
    from agent.integrations.mcp.server_config import ServerAgreement

    server = servers_of(home).find_server(args.name)
    catalog = load_catalog(home.servers, server.config)
    parked = catalog.parked_tools() if catalog is not None else ()
    if server.agreed and not parked:
        answer(
            args, {"trusted": args.name, "tools": [], "differences": {}}, f"{args.name} waits for nothing."
        )
        return int(ExitCode.DONE)
    if not args.as_json:
        _show(server, catalog)
    if not agreed_by(args, "Agree?", "Nobody is there to be asked; add --yes to agree."):
        say("Nothing was agreed to.")
        return int(ExitCode.DENIED)
    if not server.agreed and server.root is not None:
        ServerAgreement(home.servers).agree(server.root, server.config)
    if catalog is not None and parked:
        save_catalog(home.servers, server.config, catalog.accept())
    names = [tool.name for tool in parked]
    changed = dict(catalog.differences) if catalog is not None else {}
    done = f"Agreed to {args.name}" + (f" and {len(names)} of its tools" if names else "")
    answer(
        args,
        {"trusted": args.name, "tools": names, "differences": changed},
        f"{done}, from the next session on.",
    )
    return int(ExitCode.DONE)


def run_logout(home: Home, args: argparse.Namespace) -> None:
    """Delete the stored sign-in of a server."""
    forgot = _tokens(home, servers_of(home).find_server(args.name)).forget()
    text = f"Signed out of {args.name}." if forgot else f"Nobody was signed in to {args.name}."
    answer(args, {"signed_out": forgot}, text)


def _tokens(home: Home, server: DeclaredServer) -> Any:
    from agent.integrations.mcp.launch import TokenFile
    from agent.integrations.mcp.server_config import token_path

    return TokenFile(token_path(home.servers, server.config))


def _show(server: DeclaredServer, catalog: ServerCatalog | None) -> None:
    config = server.config
    if not server.agreed:
        say(f"This project wants to use the MCP server {config.name}:")
        say(f"  {clean(config.place)}")
        for term in config.terms:
            say(f"  {clean(term)}")
    for tool in catalog.parked_tools() if catalog is not None else ():
        why = "changed" if catalog is not None and catalog.standing(tool) == "changed" else tool.suspicion
        say(f"Tool {tool.name} ({why}):")
        for line in _tool_lines(tool, catalog):
            say(line)


def _tool_lines(tool: ToolDefinition, catalog: ServerCatalog | None) -> list[str]:
    """Return the lines to approve: a tool's changes or description, invisible characters spelled out."""
    if catalog is not None and (difference := catalog.differences.get(tool.name)):
        return reveal(difference).splitlines()
    lines = reveal(tool.model_text).splitlines()
    cut = [f"… {len(lines) - MOST_LINES:,} more lines"] if len(lines) > MOST_LINES else []
    return [f"  {line}" for line in (*lines[:MOST_LINES], *cut)]


def _as_data(server: DeclaredServer, catalog: ServerCatalog | None) -> dict[str, Any]:
    config = server.config
    return {
        "name": config.name,
        "origin": server.origin,
        "transport": config.transport,
        "place": clean(config.place),
        "enabled": config.enabled,
        "agreed": server.agreed,
        "known": catalog is not None,
        "tools": [tool.name for tool in catalog.ready() if config.offers(tool.name)] if catalog else [],
        "parked": {tool.name: catalog.standing(tool) for tool in catalog.parked_tools()} if catalog else {},
        "differences": dict(catalog.differences) if catalog else {},
        "prompts": [prompt.name for prompt in catalog.prompts] if catalog else [],
    }


def _line(server: DeclaredServer, catalog: ServerCatalog | None) -> str:
    config = server.config
    if not config.enabled:
        state, mark = "off", "off"
    elif not server.agreed:
        state, mark = f"not agreed to; see `hermes mcp trust {config.name}`", "needs you"
    elif catalog is None:
        state, mark = f"never asked; see `hermes mcp probe {config.name}`", "pending"
    else:
        state, mark = f"{plural(len(catalog.ready()), 'tool')}", "done"
    origin = {"project": " (of this project)", "plugin": " (of a plugin)"}.get(server.origin, "")
    return f"{glyph(mark)} {config.name}{origin}: {clean(config.place)} [{config.transport}], {state}"


DESCRIPTION = "List, add and remove MCP servers, see what they offer, and call their tools."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes mcp` to its parser."""
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
        """Read the arguments after `--` unchanged, as argparse drops the `--` after options."""
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
    """Run the chosen action; return its exit code. Raises `HermesError`."""
    home = Home.locate()
    match args.action:
        case "serve":
            from app.cli.extend.mcp_serve import run_serve

            return run_serve(home)
        case "list" | "add" | "remove" | "trust" | "logout":
            from app.cli.extend import mcp as part
        case _:
            from app.cli.extend import mcp as part
    return getattr(part, f"run_{args.action}")(home, args)
