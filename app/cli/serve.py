"""`hermes serve`: sessions for browsers and other programs, and the devices that may come in."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from agent.core.home import Home
from agent.errors import ExitCode
from app.cli.extend.extras import require
from app.cli.sessions.output import say
from tools.command_name import as_called

PORT = 8787


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "serve",
        help="host sessions for the browser, the phone and other programs",
        description="Host sessions in the foreground for browsers, phones and other programs, which come in "
        "with a token of their own.",
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen at")
    parser.add_argument("--port", type=_port, default=PORT, metavar="N", help=f"port ({PORT}; 0 = any)")
    parser.add_argument("--tls-cert", metavar="F", help="certificate; needed for addresses others reach")
    parser.add_argument("--tls-key", metavar="F", help="its key")
    parser.add_argument(
        "--insecure", action="store_true", help="let others reach it without TLS; they can read along"
    )
    _as_json(parser)
    parser.set_defaults(action=None)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    pair = actions.add_parser("pair", help="show a code that lets one device in", description=_PAIR)
    pair.add_argument("--scope", choices=("look", "talk", "approve"), default="talk", help=_SCOPE)
    pair.add_argument("--name", default="", metavar="N", help="what to call the device")
    _as_json(pair)
    _as_json(actions.add_parser("devices", help="list the devices that may come in"))
    revoke = actions.add_parser("revoke", help="let a device in no longer")
    revoke.add_argument("device", metavar="DEVICE", help="its id, or its name")
    _as_json(revoke)
    return parser


_PAIR = "Show a code, an address and a QR code that let one device in, once, within ten minutes."
_SCOPE = "what it may do: look, talk (write messages), approve (say yes); talk without it"


def _as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    if args.action is not None:
        from app.cli.serve_devices import run as run_devices

        return run_devices(args)
    require("serve", "`hermes serve`")
    from app.service.service import ServiceOptions, run_service

    options = ServiceOptions(
        host=args.host,
        port=args.port,
        cert=args.tls_cert,
        key=args.tls_key,
        insecure=args.insecure,
        model="demo" if args.demo else args.model,
    )

    def ready(url: str) -> None:
        print(json.dumps({"url": url}) if args.as_json else f"hermes serve: {url}", flush=True)
        if sys.stdout.isatty() and not args.as_json:
            say(as_called("For a browser: `hermes serve pair --scope approve` shows a link."))

    asyncio.run(run_service(options, Home.locate(), ready))
    return int(ExitCode.DONE)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65_536):
        raise argparse.ArgumentTypeError(f"{text!r} is no port: a whole number from 0 to 65535")
    return int(text)
