"""`hermes gateway`: messengers that talk to sessions of the service, and the people allowed to use them."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.errors import ConfigError
from app.cli.automate import gateway_setup
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
    from agent.integrations.gateways.people import Person


NOBODY = "no service runs; start it with `hermes gateway run`"


DESCRIPTION = "Let messengers talk to sessions of the service of this home."


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand."""
    actions = add_actions(parser)
    run_parser = add_action(
        actions, "run", "run the enabled messengers, with the service they belong to", run, json=""
    )
    run_parser.add_argument("--port", type=int, default=0, metavar="N", help="port of the service (0 = any)")
    gateway_setup.declare(actions)
    add_action(actions, "status", "the state of each messenger", _with_book)
    pair = add_action(actions, "pair", "let in the person who was told a code", _with_book)
    pair.add_argument("code", metavar="CODE")
    scopes = ("look", "talk", "approve")
    pair.add_argument("--scope", choices=scopes, default="talk", help="what they may; talk without it")
    add_action(actions, "list", "people who may talk, and who holds a code", _with_book)
    revoke = add_action(actions, "revoke", "stop letting somebody in", _with_book)
    revoke.add_argument("person", metavar="ID", help="id, GATEWAY:ID, or name")


def run(args: argparse.Namespace) -> None:
    """Run the enabled messengers until stopped. Raises `HermesError`."""
    from agent.integrations.gateways.adapter import gateway_kinds

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
