"""`hermes serve pair`, `devices` and `revoke`: beside a running service, or without one."""

from __future__ import annotations

import argparse
import io
import json
import socket
import sys
from datetime import datetime
from urllib.parse import urlsplit

from agent.core.home import Home
from agent.errors import ExitCode
from app.cli.sessions.output import say, supports_glyphs
from app.running_service import running_service
from app.service.credentials import Credentials

DEFAULT = "http://127.0.0.1:8787"


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    credentials = Credentials(Home.locate().root / "serve")
    match args.action:
        case "pair":
            _pair(credentials, args)
        case "devices":
            _list(credentials, args.as_json)
        case _:
            device = credentials.revoke(args.device)
            if args.as_json:
                print(json.dumps({"revoked": device.id}))
            else:
                say(f"{device.name} ({device.id}) is let in no longer.")
    return int(ExitCode.DONE)


def _pair(credentials: Credentials, args: argparse.Namespace) -> None:
    running = running_service(Home.locate().root / "serve")
    base = _reachable(str(running["url"]) if running else DEFAULT)
    code, expires = credentials.make_code(args.scope, args.name)
    # Behind the mark, so that it stands in no log and is sent nowhere.
    url = f"{base}/#pair={code}"
    if args.as_json:
        print(json.dumps({"code": code, "url": url, "scope": args.scope, "expires": expires}))
        return
    if running is None:
        say("No service runs yet: start one with `hermes serve`.", sys.stderr)
    until = datetime.fromtimestamp(expires).astimezone().strftime("%H:%M")
    say(f"Code: {code}   (once, until {until}; may {args.scope})")
    say(f"Page: {url}")
    if supports_glyphs() and (picture := qr(url)):
        print(picture)


def qr(text: str) -> str:
    """A QR code in half blocks; empty where the package for it is missing."""
    try:
        import segno
    except ImportError:
        return ""
    out = io.StringIO()
    segno.make(text, error="m", micro=False).terminal(out, compact=True, border=2)
    return out.getvalue().rstrip("\n")


def _reachable(url: str) -> str:
    """The address with a name that other machines can use, where the service listens at all addresses."""
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


def _list(credentials: Credentials, as_json: bool) -> None:
    devices = credentials.devices()
    if as_json:
        fields = ("id", "name", "scope", "created", "seen", "address")
        print(json.dumps({"devices": [{name: getattr(each, name) for name in fields} for each in devices]}))
        return
    if not devices:
        say("No device is paired yet; `hermes serve pair` shows a code for one.")
    for each in devices:
        seen = datetime.fromtimestamp(each.seen).astimezone().strftime("%Y-%m-%d %H:%M")
        say(f"{each.id}  {each.scope:7}  {seen}  {each.address:15}  {each.name}")
