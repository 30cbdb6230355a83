"""`hermes setup`: choosing a first model on a plain terminal. It is checked and made the default."""

from __future__ import annotations

import argparse
import asyncio
import sys
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.errors import ConfigError, ExitCode
from app.cli.frame import add_json, say, say_json
from themes.states import NEEDS_YOU, glyph

if TYPE_CHECKING:
    from agent.model.key_check import KeyProvider
    from app.tui.screens.models.model_menu import ModelMenu, Way

DESCRIPTION = (
    "Choose the model that new sessions begin with. On a terminal it asks line by line; with options it "
    "asks nothing, for scripts. Keys are checked with a free request and kept where only you can read them."
)
_LISTED = 30
"""The number of a provider's models that are listed; others can be typed by name."""
_LONGEST_KEY = 8192
_NO_TERMINAL = (
    "There is no terminal to ask on. Give what is needed: `hermes setup --provider openrouter --key-stdin "
    "--model NAME`, `hermes setup --url http://localhost:8000/v1` or `hermes setup --model local`."
)


class Setup(NamedTuple):
    """The result of a setup."""

    model: str = ""
    """The model that became the default; empty if none was chosen."""
    provider: str = ""
    models: tuple[str, ...] = ()
    """The names of the models that the provider offers, as far as they are known."""
    notice: str = ""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options of `hermes setup` to its parser."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--provider", metavar="NAME", help="a provider, as `hermes providers` lists them")
    place.add_argument("--url", help="the address of a server; what it speaks is found out by asking it")
    parser.add_argument("--key-stdin", action="store_true", help="read the key from stdin")
    parser.add_argument("--model", metavar="M", help="the model: a name of that provider, or provider/name")
    add_json(parser, "print one JSON object; without other options: what could be chosen")
    parser.set_defaults(do=_setup)


def _setup(args: argparse.Namespace) -> int:
    from app.tui.screens.models.model_menu import ModelMenu

    menu = ModelMenu(Path.cwd())
    if args.key_stdin and not (args.provider or args.url):
        raise ConfigError("--key-stdin goes with --provider NAME or --url URL: whose key is it?")
    try:
        if args.provider or args.url or args.model:
            outcome = asyncio.run(_by_options(args, menu))
        elif args.as_json:
            say_json({"ways": asyncio.run(_list_ways(menu))}, 2)
            return ExitCode.DONE
        elif sys.stdin.isatty():
            outcome = asyncio.run(_by_asking(menu))
        else:
            raise ConfigError(_NO_TERMINAL)
    except EOFError:
        return ExitCode.DONE
    if args.as_json:
        say_json(outcome._asdict() | {"models": list(outcome.models)}, 2)
    elif outcome.model:
        say(f"{glyph('done')} {outcome.notice} Start with `hermes`.")
    elif outcome.notice:
        say(outcome.notice)
    return ExitCode.DONE


async def _by_options(args: argparse.Namespace, menu: ModelMenu) -> Setup:
    """Set up the provider or server that the options name. Raises `ConfigError`."""
    key = ""
    if args.key_stdin:
        key = getpass("Key: ") if sys.stdin.isatty() else sys.stdin.read(_LONGEST_KEY)
        key = _checked_key(key)
    models: tuple[str, ...] = ()
    provider: str = args.provider or ""
    if args.url:
        found = await menu.server(args.url, key)
        if found.problem:
            raise ConfigError(found.problem)
        provider, models = found.name, found.models
    elif provider:
        models = await _with_key(await _provider(menu, provider), key, menu)
    model: str = args.model or (models[0] if len(models) == 1 else "")
    if not model:
        names = f": {', '.join(models[:_LISTED])}" if models else ""
        notice = f"{provider} is set up. Choose one of its models with `hermes setup --model {provider}/NAME`"
        return Setup("", provider, models, f"{notice}{names}.")
    if provider and not model.startswith(f"{provider}/"):
        model = f"{provider}/{model}"
    return await _keep(model, menu, provider, models)


async def _keep(model: str, menu: ModelMenu, provider: str = "", models: tuple[str, ...] = ()) -> Setup:
    """Make a model the default, and return the result. Raises `ConfigError` if it cannot be used."""
    if problem := await menu.problem_of(model):
        raise ConfigError(problem)
    return Setup(model, provider or model.partition("/")[0], models, await menu.keep(model))


async def _provider(menu: ModelMenu, name: str) -> KeyProvider:
    from themes.skin import nearest

    known = {each.name: each for each in (await menu.offers()).providers}
    if name not in known:
        raise ConfigError(
            f"No provider {name!r} takes a key{nearest(name, known)} A server of your own has an address: "
            "`hermes setup --url URL`."
        )
    return known[name]


async def _with_key(provider: KeyProvider, key: str, menu: ModelMenu) -> tuple[str, ...]:
    """Check and store a key; return the models it gives access to. Raises `ConfigError` if it is rejected.

    An empty `key` means the one that is already set, which is not checked.
    """
    if not key:
        if not provider.is_set:
            raise ConfigError(f"{provider.variable} is not set; set it, or hand the key in with --key-stdin.")
        return tuple(
            each.name.partition("/")[2]
            for each in await menu.of_provider(provider.name, ())
            if not each.problem and not each.name.endswith("/…")
        )
    check = await menu.check(provider, key)
    if check.problem:
        raise ConfigError(check.problem)
    await menu.keep_key(provider, key)
    return check.models


def _checked_key(key: str) -> str:
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            "That is not a key: it is empty, or holds blanks or special characters; copy it again."
        )
    return key


async def _ways(menu: ModelMenu) -> list[Way]:
    from agent.model.providers import NoModelError
    from app.tui.screens.models.model_menu import ways

    offers = await menu.offers()
    served = [each for each in await menu.detect_choices() if not each.problem]
    return [*(_way_of_server(each.name) for each in served[:_LISTED]), *ways(NoModelError(), offers)]


def _way_of_server(name: str) -> Way:
    from app.tui.screens.models.model_menu import Way

    return Way(f"{name} – runs on this machine", "use", name, is_default=True)


async def _list_ways(menu: ModelMenu) -> list[dict[str, Any]]:
    return [
        {"title": way.title, "act": way.act, "model": way.model}
        | {"provider": way.provider.name if way.provider is not None else ""}
        for way in await _ways(menu)
    ]


async def _by_asking(menu: ModelMenu) -> Setup:
    """Ask how to get a model until one is set up; return the result. Raises `EOFError` if the user leaves."""
    while True:
        found = await _ways(menu)
        way = found[await _choose("Choose a model", [each.title for each in found])]
        try:
            if (outcome := await _go(way, menu)) is not None:
                return outcome
        except ConfigError as error:
            say(f"{glyph('failed')} {error}\n", sys.stderr)


async def _go(way: Way, menu: ModelMenu) -> Setup | None:
    match way.act:
        case "use" if way.model == "demo":
            return Setup(notice="The tour starts with `hermes --demo`; it needs no model.")
        case "use":
            return await _keep(way.model, menu)
        case "fetch" if way.weights is not None:
            return await _fetch(way, menu)
        case "name":
            return await _keep(await _read("Model, as provider/name: "), menu)
        case "server":
            address = await _read("Address, such as http://localhost:8000/v1: ")
            key = await asyncio.to_thread(getpass, "Its key, empty if it wants none: ")
            found = await menu.server(address, _checked_key(key) if key.strip() else "")
            if found.problem:
                raise ConfigError(found.problem)
            return await _of(found.name, found.models, menu)
        case "models" if way.provider is not None:
            return await _of(way.provider.name, await _with_key(way.provider, "", menu), menu)
        case _:
            providers = (await menu.offers()).providers
            names = [f"{each.name} ({each.variable}{', set' * each.is_set})" for each in providers]
            provider = providers[await _choose("Choose a provider", names)]
            key = _checked_key(
                await asyncio.to_thread(getpass, f"Key for {provider.name} (it is not shown): ")
            )
            return await _of(provider.name, await _with_key(provider, key, menu), menu)


async def _fetch(way: Way, menu: ModelMenu) -> Setup | None:
    from app.cli.extend.extras import require
    from app.cli.extend.model import fetch

    await asyncio.to_thread(require, "local", "The local model")
    small = (await menu.offers()).small
    is_small = small is not None and way.weights == small
    code = await asyncio.to_thread(fetch, argparse.Namespace(small=is_small, source="auto"))
    return await _keep("local", menu) if code == ExitCode.DONE else None


async def _of(provider: str, models: tuple[str, ...], menu: ModelMenu) -> Setup:
    """Let the user choose a model of a provider, and make it the default. Raises `EOFError` if they leave."""
    shown = list(models[:_LISTED])
    name = (
        await _pick(f"Choose a model of {provider}", shown)
        if shown
        else await _read(f"Name of a model of {provider}: ")
    )
    return await _keep(
        name if name.startswith(f"{provider}/") else f"{provider}/{name}", menu, provider, models
    )


async def _choose(title: str, choices: list[str]) -> int:
    """Return the index of the choice. Raises `EOFError` if the user leaves."""
    return choices.index(await _pick(title, choices, typed=False))


async def _pick(title: str, choices: list[str], *, typed: bool = True) -> str:
    """Return one of the choices, picked by its number, or with `typed` any other text."""
    say(f"\n{NEEDS_YOU} {title}\n", sys.stderr)
    for number, choice in enumerate(choices, 1):
        say(f"  {number:>2}  {choice}", sys.stderr)
    other = ", or a name" if typed else ""
    while True:
        text = await _read(f"\nNumber{other} (empty leaves): ")
        if text.isascii() and text.isdigit() and 1 <= int(text) <= len(choices):
            return choices[int(text) - 1]
        if typed and not text.isdigit():
            return text
        say(f"{glyph('failed')} There is no {text!r}; type a number from 1 to {len(choices)}.", sys.stderr)


async def _read(prompt: str) -> str:
    """Return a typed line. Raises `EOFError` if it is empty, or at the end of input."""

    def read() -> str:
        print(prompt, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip()

    if not (text := await asyncio.to_thread(read)):
        raise EOFError
    return text
