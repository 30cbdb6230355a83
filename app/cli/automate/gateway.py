"""`hermes gateway`: messengers that talk to sessions of the service, and the users allowed to use them."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import secrets as chance
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError
from app.cli.extend.extras import require
from app.cli.frame import (
    add_action,
    add_actions,
    advise,
    answer,
    load_settings,
    minute_of,
    open_store,
    say,
    say_json,
)

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.core.store.connection import Database
    from agent.integrations.gateways.adapter import GatewayKind
    from agent.integrations.gateways.people import Person


def declare_setup(actions: Any) -> None:
    """Add the action `setup` and its options to the actions of `hermes gateway`."""
    setup = add_action(
        actions, "setup", "set a messenger up: ask for its token, try it, keep it, enable it", run_setup
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


def run_setup(args: argparse.Namespace) -> None:
    """Set up or disable a messenger; without a name, list all. On a `HermesError`, nothing has changed."""
    from agent.core.config.edit import set_setting
    from agent.integrations.gateways.adapter import gateway_kind

    home = Home.locate()
    if not args.name:
        _list_messengers(home, args.as_json)
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
    """Return a new secret; "" keeps the current one. Raises `ConfigError` if there is none to keep."""
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
    """Ask for a further setting; return "" to keep the current value."""
    now = str(getattr(settings, name) or "")
    if sys.stdin.isatty():
        return input(f"{asked} [{now or 'none'}]: ").strip()
    return sys.stdin.readline().strip()


def _list_messengers(home: Home, as_json: bool) -> None:
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


NOBODY = "no service runs; start it with `hermes gateway run`"


DESCRIPTION = "Let messengers talk to sessions of the service of this home."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes gateway` to its parser."""
    actions = add_actions(parser)
    run_parser = add_action(
        actions, "run", "run the enabled messengers, with the service they belong to", run, json=""
    )
    run_parser.add_argument("--port", type=int, default=0, metavar="N", help="port of the service (0 = any)")
    declare_setup(actions)
    add_action(actions, "status", "the state of each messenger", _with_book)
    pair = add_action(actions, "pair", "let in the person who was told a code", _with_book)
    pair.add_argument("code", metavar="CODE")
    scopes = ("look", "talk", "approve")
    pair.add_argument("--scope", choices=scopes, default="talk", help="what they may; talk without it")
    add_action(actions, "list", "people who may talk, and who holds a code", _with_book)
    revoke = add_action(actions, "revoke", "stop letting somebody in", _with_book)
    revoke.add_argument("person", metavar="ID", help="id, GATEWAY:ID, or name")


def run(args: argparse.Namespace) -> None:
    """Run the enabled messengers until stopped, unless a service runs them already. Raises `HermesError`."""
    from agent.integrations.gateways.adapter import gateway_kinds
    from agent.integrations.gateways.checking import missing

    home = Home.locate()
    loaded = load_settings(home)
    kinds = gateway_kinds()
    enabled = [name for name in kinds if getattr(loaded.settings.gateways, name).enabled]
    if not enabled:
        raise ConfigError("No messenger is set up; begin with `hermes gateway setup telegram`.")
    require("serve", "The service, which runs messengers,")
    for name in tuple(enabled):
        try:
            if extra := kinds[name].extra:
                require(extra, kinds[name].title)
            if lost := missing(kinds[name], getattr(loaded.settings.gateways, name), loaded.environ):
                raise ConfigError(
                    f"{kinds[name].title} cannot run: {', '.join(lost)} not set; "
                    f"set it up with `hermes gateway setup {name}`."
                )
        except ConfigError as error:
            # A gateway that cannot run does not stop the others.
            enabled.remove(name)
            if not enabled:
                raise
            say(f"hermes: {error}", sys.stderr)
    from app.running_service import running_service

    if running := running_service(home.root / "serve"):
        say(f"The service at {running['url']} runs them already: {', '.join(enabled)}.")
        return
    from app.service.service import ServiceOptions, run_service

    options = ServiceOptions(host="127.0.0.1", port=args.port, model="demo" if args.demo else args.model)

    def ready(url: str) -> None:
        say(f"hermes gateway: {', '.join(enabled)} ({url})")
        # Flush: a program may read this line through a pipe.
        sys.stdout.flush()

    asyncio.run(run_service(options, home, ready))


def _with_book(args: argparse.Namespace) -> None:
    home = Home.locate()
    asyncio.run(_work(home, load_settings(home), args))


async def _work(home: Home, loaded: LoadedSettings, args: argparse.Namespace) -> None:
    from agent.integrations.gateways import people

    async with await open_store(home) as store:
        database = store.database
        match args.action:
            case "status":
                await _status(home, loaded, database, args.as_json)
            case "pair":
                person = await database.write(lambda c: people.pair(c, args.code, args.scope, time.time()))
                told = {"gateway": person.gateway, "person": person.id, "name": person.name}
                words = f"{person.name or person.id} at {person.gateway} may {person.scope} now."
                answer(args, {**told, "scope": person.scope}, words)
            case "revoke":
                person = await database.write(lambda c: people.revoke(c, args.person))
                words = f"{person.name or person.id} at {person.gateway} is no longer let in."
                answer(args, {"revoked": person.id, "gateway": person.gateway}, words)
            case _:
                _list(loaded, await database.read(people.people), args.as_json)


async def _status(home: Home, loaded: LoadedSettings, database: Database, as_json: bool) -> None:
    from agent.integrations.gateways import book
    from agent.integrations.gateways.adapter import gateway_kinds
    from agent.integrations.gateways.checking import lacks, missing
    from app.running_service import running_service

    is_running = running_service(home.root / "serve") is not None
    rows = []
    kinds = gateway_kinds()
    for each in await database.read(lambda c: book.statuses(c, list(kinds))):
        settings = getattr(loaded.settings.gateways, each.name)
        state = "off" if not settings.enabled else each.state if is_running else "stopped"
        problem = each.problem
        if lost := missing(kinds[each.name], settings, loaded.environ):
            state, problem = ("incomplete" if settings.enabled else "off"), f"{', '.join(lost)} not set"
        elif state == "stopped" and not problem:
            problem = lacks(kinds[each.name]) or (
                "the service that runs does not have it; start it again" if is_running else NOBODY
            )
        rows.append(
            {
                "name": each.name,
                "state": state,
                "who": each.who if state == "running" else "",
                "problem": problem if settings.enabled else "",
                "waiting": each.waiting,
                "owed": each.owed,
                "failed": each.failed,
            }
        )
    if as_json:
        say_json({"service": is_running, "gateways": rows})
        return
    for row in rows:
        counted = ", ".join(
            f"{row[name]} {words}"
            for name, words in (("waiting", "to work on"), ("owed", "to send"), ("failed", "not sent"))
            if row[name]
        )
        said = "  ".join(part for part in (row["who"], row["problem"], counted) if part)
        say(f"{row['name']:9}  {row['state']:10}  {said}".rstrip())


def _list(loaded: LoadedSettings, people: list[Person], as_json: bool) -> None:
    from agent.integrations.gateways.adapter import gateway_kinds

    named = [
        (name, id, scope)
        for name in gateway_kinds()
        for scope in ("talk", "approve")
        for id in getattr(getattr(loaded.settings.gateways, name), "allow" if scope == "talk" else scope)
    ]
    if as_json:
        paired = [
            {"gateway": e.gateway, "person": e.id, "name": e.name, "scope": e.scope, "since": e.at}
            for e in people
        ]
        settings = [{"gateway": name, "person": id, "scope": scope} for name, id, scope in named]
        say_json({"people": paired, "settings": settings})
        return
    if not people and not named:
        advise("Nobody may talk yet; write to the bot, then `hermes gateway pair CODE`.")
    for each in people:
        say(f"{each.gateway:9}  {each.scope or 'code':8}  {minute_of(each.at)}  {each.id}  {each.name}")
    for name, id, scope in named:
        say(f"{name:9}  {scope:8}  {'settings':16}  {id}")
