"""`hermes acp`: Hermes as the agent of an editor, over the Agent Client Protocol."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from agent.errors import ConfigError, ExitCode
from app.cli.extend.extras import require


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "acp",
        help="work in an editor that speaks the Agent Client Protocol",
        description="Work in an editor that speaks the Agent Client Protocol, such as Zed. The editor starts "
        "this command and speaks with it over stdin and stdout.",
    )
    # Named otherwise than the options before the subcommand, which it would hide.
    parser.add_argument("--with-model", metavar="M", dest="acp_model", help="model to use")
    return parser


def run(args: argparse.Namespace) -> int:
    """Serve the editor until it leaves. Raises `HermesError`."""
    if sys.stdin.isatty():
        raise ConfigError("An editor starts `hermes acp` and speaks with it over pipes; see docs/acp.md.")
    require("acp", "`hermes acp`")
    from app.editor.server import serve

    asyncio.run(serve(args.acp_model or args.model))
    return int(ExitCode.DONE)
