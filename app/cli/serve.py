"""`hermes serve`: sessions for browsers and other programs, and the devices that may connect."""

from __future__ import annotations

import argparse
import asyncio
import io
import socket
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.core.home import Home
from app.cli.extend.extras import require
from app.cli.frame import (
    ONE_OBJECT,
    add_action,
    add_json,
    advise,
    answer,
    minute_of,
    say,
    say_json,
    supports_glyphs,
    whole_number,
)
from app.running_service import running_service

if TYPE_CHECKING:
    from app.service.credentials import Credentials

PORT = 8787
DEFAULT = f"http://127.0.0.1:{PORT}"


DESCRIPTION = (
    "Host sessions in the foreground for browsers, phones and other programs, which come in "
    "with a token of their own."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options and actions of `hermes serve` to its parser."""
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen at")
    parser.add_argument(
        "--port", type=whole_number(0, 65_535), default=PORT, metavar="N", help=f"port ({PORT}; 0 = any)"
    )
    parser.add_argument("--tls-cert", metavar="F", help="certificate; needed for addresses others reach")
    parser.add_argument("--tls-key", metavar="F", help="its key")
    parser.add_argument(
        "--insecure", action="store_true", help="let others reach it without TLS; they can read along"
    )
    add_json(parser, ONE_OBJECT)
    parser.set_defaults(action=None, do=run)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    pair = add_action(actions, "pair", "show a code that lets one device in", _pair)
    pair.description = _PAIR
    pair.add_argument("--scope", choices=("look", "talk", "approve"), default="talk", help=_SCOPE)
    pair.add_argument("--name", default="", metavar="N", help="what to call the device")
    add_action(actions, "devices", "list the devices that may come in", _list)
    revoke = add_action(actions, "revoke", "stop letting a device in", _revoke)
    revoke.add_argument("device", metavar="DEVICE", help="its id, or its name")


_PAIR = "Show a code, an address and a QR code that let one device in, once, within ten minutes."
_SCOPE = "what it may do: look, talk (write messages), approve (say yes); talk without it"


def run(args: argparse.Namespace) -> None:
    """Host sessions until stopped. Raises `HermesError`."""
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
        answer(args, {"url": url}, f"hermes serve: {url}")
        if sys.stdout.isatty() and not args.as_json:
            advise("For a browser: `hermes serve pair --scope approve` shows a link.")

    asyncio.run(run_service(options, Home.locate(), ready))


def _credentials() -> Credentials:
    from app.service.credentials import Credentials

    return Credentials(Home.locate().root / "serve")


def _revoke(args: argparse.Namespace) -> None:
    device = _credentials().revoke(args.device)
    answer(args, {"revoked": device.id}, f"{device.name} ({device.id}) is no longer let in.")


def _pair(args: argparse.Namespace) -> None:
    running = running_service(Home.locate().root / "serve")
    base = _reachable(str(running["url"]) if running else DEFAULT)
    code, expires = _credentials().make_code(args.scope, args.name)
    # Behind the mark, so that it is not logged and not sent.
    url = f"{base}/#pair={code}"
    if args.as_json:
        say_json({"code": code, "url": url, "scope": args.scope, "expires": expires})
        return
    if running is None:
        advise("No service runs yet: start one with `hermes serve`.", sys.stderr)
    until = minute_of(expires)[-5:]
    say(f"Code: {code}   (once, until {until}; may {args.scope})")
    say(f"Page: {url}")
    if supports_glyphs() and (picture := qr(url)):
        print(picture)


def qr(text: str) -> str:
    """Return a text as a QR code of half blocks; empty if the package for it is missing."""
    try:
        import segno
    except ImportError:
        return ""
    out = io.StringIO()
    segno.make(text, error="m", micro=False).terminal(out, compact=True, border=2)
    return out.getvalue().rstrip("\n")


def _reachable(url: str) -> str:
    """Return the URL for other machines: one for all addresses gets this machine's own address."""
    parts = urlsplit(url)
    if parts.hostname not in ("0.0.0.0", "::"):
        return url
    try:
        # No packet leaves: this only asks which address would be used.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))
            host = str(probe.getsockname()[0])
    except OSError:
        host = "127.0.0.1"
    return f"{parts.scheme}://{host}:{parts.port}"


def _list(args: argparse.Namespace) -> None:
    devices = _credentials().devices()
    if args.as_json:
        fields = ("id", "name", "scope", "created", "seen", "address")
        say_json({"devices": [{name: getattr(each, name) for name in fields} for each in devices]})
        return
    if not devices:
        advise("No device is paired yet; `hermes serve pair` shows a code for one.")
    for each in devices:
        say(f"{each.id}  {each.scope:7}  {minute_of(each.seen)}  {each.address:15}  {each.name}")
