"""`hermes mcp list|add|remove|trust|logout`: servers in the settings, and consent to them."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode, HermesError
from app.cli.extend.mcp_arguments import parsed_pairs, servers_of
from app.cli.frame import advise, agreed_by, answer, say, say_json
from themes.states import glyph
from tools.text.safe_text import clean, reveal

if TYPE_CHECKING:
    from agent.core.home import Home
    from agent.integrations.mcp.catalog import ServerCatalog, ToolDefinition
    from agent.integrations.mcp.server_config import DeclaredServer

MOST_LINES = 400
"""Lines of a tool that nobody agreed to yet that are shown."""


def run_list(home: Home, args: argparse.Namespace) -> None:
    """Print all servers without connecting to any."""
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
    """Add a server to config.yaml and fetch its catalog once."""
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
    from app.cli.extend.mcp_connection import probe_server

    try:
        found = probe_server(home, servers_of(home).find_server(args.name), args)
    except HermesError as error:
        say(f"Added {args.name}, but: {error}", sys.stderr)
        return int(error.exit_code)
    count = len(found["tools"])
    answer(args, {"added": args.name, **found}, f"Added {args.name}, with {count} tools.")
    return int(ExitCode.DONE)


def run_remove(home: Home, args: argparse.Namespace) -> None:
    """Remove a server from config.yaml and delete its stored data."""
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
    """Approve a server of the project, or new and changed tools of a server."""
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
    """Return the changes of a tool, or its full description; invisible characters are spelled out."""
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
        state, mark = f"{len(catalog.ready())} tools", "done"
    origin = {"project": " (of this project)", "plugin": " (of a plugin)"}.get(server.origin, "")
    return f"{glyph(mark)} {config.name}{origin}: {clean(config.place)} [{config.transport}], {state}"
