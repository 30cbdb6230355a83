"""`hermes acp`: Hermes as the agent of an editor, over the Agent Client Protocol."""

from __future__ import annotations

import argparse
import asyncio
import sys

from agent.errors import ConfigError
from app.cli.extend.extras import require

DESCRIPTION = (
    "Work in an editor that speaks the Agent Client Protocol, such as Zed. The editor starts "
    "this command and speaks with it over stdin and stdout."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options of `hermes acp` to its parser."""
    # Named otherwise than the options before the subcommand, which it would hide.
    parser.add_argument("--with-model", metavar="M", dest="acp_model", help="model to use")
    parser.set_defaults(do=run)


def run(args: argparse.Namespace) -> None:
    """Serve the editor until it closes the connection. Raises `HermesError`."""
    if sys.stdin.isatty():
        raise ConfigError("An editor starts `hermes acp` and speaks with it over pipes; see docs/acp.md.")
    require("acp", "`hermes acp`")
    from app.editor.server import serve

    asyncio.run(serve(args.acp_model or args.model))
