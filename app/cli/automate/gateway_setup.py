"""`hermes gateway setup`: ask for a messenger's settings, test and store them, then enable the messenger."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import secrets as chance
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError
from app.cli.extend.extras import require
from app.cli.frame import add_action, advise, answer, load_settings, say, say_json

if TYPE_CHECKING:
    from agent.integrations.gateways.adapter import GatewayKind


def declare(actions: Any) -> None:
    """Declare the action."""
    setup = add_action(
        actions, "setup", "set a messenger up: ask for its token, try it, keep it, enable it", run
    )
    setup.description = (
        "Without NAME, list the messengers. Where nobody types, secrets come from variables "
        "that are set or from standard input, one a line."
    )
    setup.add_argument("name", nargs="?", default="", metavar="NAME", help="telegram, signal, webhook, …")
    setup.add_argument(
        "--set",
        action="append",
        default=[],
        dest="given",
        metavar="SETTING=VALUE",
        help="a setting of it, such as api_url=… or phone_id=…; asks for no others",
    )
    setup.add_argument("--unchecked", action="store_true", help="ask the platform nothing; for later use")
    setup.add_argument("--off", action="store_true", help="disable it; token and people stay")


def run(args: argparse.Namespace) -> None:
    """Set up a messenger. Raises `HermesError`, and then nothing has changed."""
    from agent.core.config.edit import set_setting
    from agent.integrations.gateways.adapter import gateway_kind

    home = Home.locate()
    if not args.name:
        _list(home, args.as_json)
        return
    kind = gateway_kind(args.name)
    if args.off:
        set_setting(home, f"gateways.{kind.name}.enabled", "false")
        answer(args, {"gateway": kind.name, "enabled": False}, f"{kind.title} is off.")
        return
    if kind.extra:
        require(kind.extra, kind.title)
    _set_up(home, kind, args)


def _set_up(home: Home, kind: GatewayKind, args: argparse.Namespace) -> None:
    from agent.core.config.edit import set_setting
    from agent.core.config.env_file import keep_key
    from agent.integrations.gateways.checking import check_gateway

    settings, environ = _current_settings(home, kind)
    wanted = _parse_pairs(kind, args.given)
    may_type = sys.stdin.isatty() and not args.as_json
    secrets: dict[str, str] = {}
    for secret in kind.secrets:
        variable = getattr(settings, secret.field) or secret.variable
        if value := _secret(kind, secret.asked, variable, environ, may_type=may_type):
            secrets[variable] = value
    if not wanted:
        asked = {name: _field(settings, name, question) for name, question in kind.fields.items()}
        wanted = {name: value for name, value in asked.items() if value}
    settings = _with_values(kind, settings, wanted)
    who = ""
    if not args.unchecked:
        who = asyncio.run(check_gateway(kind, settings, {**environ, **secrets}, home.gateways / kind.name))
    for variable, value in secrets.items():
        keep_key(home, variable, value)
    for name, value in wanted.items():
        set_setting(home, f"gateways.{kind.name}.{name}", value)
    set_setting(home, f"gateways.{kind.name}.enabled", "true")
    _report(home, kind, args, secrets, who)


def _report(
    home: Home, kind: GatewayKind, args: argparse.Namespace, kept: Mapping[str, str], who: str
) -> None:
    from app.running_service import running_service

    shadowed = [name for name, value in kept.items() if os.environ.get(name, value) != value]
    running = running_service(home.root / "serve") is not None
    if args.as_json:
        told = {"gateway": kind.name, "enabled": True, "checked": not args.unchecked, "who": who}
        say_json({**told, "kept": sorted(kept), "shadowed": shadowed, "restart": running})
        return
    if kept:
        say(f"{', '.join(kept)}: kept in {home.env} (0600).")
    for name in shadowed:
        say(f"The variable {name} of this shell is another one and counts first; unset it.")
    say(f"{kind.title} is on{f': {who}' if who else ''}{'' if who else ', unchecked'}.")
    begin = "Start the running service again" if running else "Start it with `hermes gateway run`"
    say(f"{begin}, then write to it there and pair yourself with the code it tells you.")


def _current_settings(home: Home, kind: GatewayKind) -> tuple[Any, Mapping[str, str]]:
    """Return the current settings of a messenger and the environment variables."""
    loaded = load_settings(home)
    return getattr(loaded.settings.gateways, kind.name), loaded.environ


def _with_values(kind: GatewayKind, settings: Any, wanted: Mapping[str, str]) -> Any:
    """Return the settings with the values applied; nothing is written. Raises `ConfigError`."""
    from agent.core.config.edit import setting_value

    values = {name: setting_value(f"gateways.{kind.name}.{name}", text) for name, text in wanted.items()}
    try:
        return settings.model_validate({**settings.model_dump(), **values, "enabled": True})
    except ValueError as error:
        found = getattr(error, "errors", list)()
        where = ", ".join(str(each["loc"][0]) for each in found if each.get("loc"))
        raise ConfigError(
            f"A setting of {kind.title} has a wrong value: {where or 'unknown'}; see docs/gateway.md."
        ) from None


def _parse_pairs(kind: GatewayKind, pairs: list[str]) -> dict[str, str]:
    """Parse `NAME=VALUE` settings of the command line. Raises `ConfigError`."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name.strip() in ("", "enabled"):
            raise ConfigError(f"{pair[:60]!r} is not a setting; write --set api_url=https://….")
        if name.strip() in {each.field for each in kind.secrets}:
            raise ConfigError(f"{name.strip()} names a variable; `hermes config set` changes that.")
        found[name.strip()] = value.strip()
    return found


def _secret(
    kind: GatewayKind, asked: str, variable: str, environ: Mapping[str, str], *, may_type: bool
) -> str:
    """Return a new secret; empty keeps the present one. Raises `ConfigError` if there is none."""
    is_there = bool(environ.get(variable, "").strip())
    if may_type:
        hint = " (empty = the one that is kept)" if is_there else ""
        value = getpass.getpass(f"{asked}{hint}: ").strip()
    else:
        value = "" if sys.stdin.isatty() else sys.stdin.readline().strip()
    if not value and not is_there and kind.name == "webhook":
        return chance.token_urlsafe(32)
    if not value and not is_there:
        raise ConfigError(
            f"{kind.title} is not set up without this: {asked}. Type it, pipe it in, or set {variable}."
        )
    return value


def _field(settings: Any, name: str, asked: str) -> str:
    """Ask for a further setting; an empty text keeps the present value."""
    now = str(getattr(settings, name) or "")
    if sys.stdin.isatty():
        return input(f"{asked} [{now or 'none'}]: ").strip()
    return sys.stdin.readline().strip()


def _list(home: Home, as_json: bool) -> None:
    from agent.integrations.gateways.adapter import gateway_kinds
    from agent.integrations.gateways.checking import missing

    rows: list[dict[str, Any]] = []
    for name, kind in gateway_kinds().items():
        settings, environ = _current_settings(home, kind)
        needs = [each.asked for each in kind.secrets] + list(kind.fields.values())
        lost = list(missing(kind, settings, environ))
        rows.append({"name": name, "enabled": settings.enabled, "missing": lost, "needs": needs})
    if as_json:
        say_json({"gateways": rows})
        return
    for row in rows:
        state = "off" if not row["enabled"] else "incomplete" if row["missing"] else "on"
        say(f"{row['name']:9}  {state:10}  {'; '.join(row['needs'])}")
    advise("Set one up with `hermes gateway setup NAME`.")
