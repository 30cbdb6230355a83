"""`hermes providers`: list, add, check and remove model providers, and show what was learned about them."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode, HermesError
from agent.model.provider_book import ask_provider, provider_row, provider_rows, remove_provider, variable_of
from app.cli.frame import add_action, add_json, advise, load_settings, say, say_json
from themes.states import glyph
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OTHERWISE = ("local", "demo", "custom")
"""Names that have another meaning as the provider in a model's name."""
_LONGEST_KEY = 8192


DESCRIPTION = (
    "List the providers of models, add one of your own, check one with a request that costs "
    "nothing, remove one, and show or forget what was learned of one."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options and actions of `hermes providers` to its parser."""
    add_json(parser)
    parser.set_defaults(do=_list)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    about = "every provider, its address, and whether its key is set"
    add_action(actions, "list", about, _list, json="print JSON")
    add = add_action(actions, "add", "add a provider of your own to config.yaml", _add, json="")
    add.add_argument("name", metavar="NAME")
    add.add_argument("--url", required=True, help="address of the API, such as https://host/v1")
    key = add.add_mutually_exclusive_group()
    key.add_argument("--key-env", metavar="VAR", default="", help="the variable that holds the key")
    key.add_argument("--key-stdin", action="store_true", help="read the key from stdin and keep it in .env")
    add.add_argument(
        "--format",
        choices=("auto", "chat", "anthropic", "responses"),
        default="auto",
        help="form of requests; auto asks the server (default)",
    )
    about = "ask the provider once; exit code 3 if it does not answer or takes no key"
    for action in (
        add_action(actions, "check", about, _check, json="print JSON"),
        add_action(
            actions,
            "show",
            "one provider, its dialect, and what was learned of its models",
            _show,
            json="print JSON",
        ),
        add_action(actions, "remove", "take a provider out of config.yaml", _remove, json=""),
        add_action(actions, "forget", "drop what was learned of the models of a provider", _forget, json=""),
    ):
        action.add_argument("name", metavar="NAME")


def _load() -> tuple[Home, LoadedSettings]:
    home = Home.locate()
    return home, load_settings(home)


def _list(args: argparse.Namespace) -> None:
    rows = provider_rows(*_load())
    if args.as_json:
        say_json(rows, 2)
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        mark = glyph("done" if row["key_set"] or not row["key_env"] else "skipped")
        say(f"{mark} {row['name']:<{width}}  {row['base_url']}  {_key_words(row)}")


def _key_words(row: dict[str, Any]) -> str:
    if not row["key_env"]:
        return "no key"
    return f"{row['key_env']} is {'set' if row['key_set'] else 'not set'}"


def _show(args: argparse.Namespace) -> None:
    from agent.model.dialect import FOLDER, mistakes
    from agent.model.dialect_book import dialect_name, learned_of
    from agent.model.providers import seller

    home, loaded = _load()
    name: str = args.name
    row = provider_row(home, loaded, name)
    own = loaded.settings.providers.get(name)
    url = row["base_url"]
    dialect = dialect_name(home.root, name, url, chosen=own.dialect if own else "", seller=seller(url))
    learned = learned_of(home.root, name)
    for mistake in mistakes(home.root / FOLDER):
        say(f"hermes: {mistake}", sys.stderr)
    if args.as_json:
        rows = [{"model": model, "base_url": address, **each} for address, model, each in learned]
        say_json({**row, "dialect": dialect, "learned": rows}, 2)
        return
    origin = "built in" if row["built_in"] else "from OPENAI_BASE_URL" if own is None else "from the settings"
    say(f"{name} ({origin})")
    say(f"  address  {url}")
    say(f"  format   {row['format']}")
    say(f"  key      {_key_words(row)}")
    say(f"  dialect  {dialect}")
    advise("  learned  " + (f"`hermes providers forget {name}` drops it:" if learned else "nothing"))
    for address, model, each in learned:
        say(f"    {model} at {address}: {each.get('rule', '')} ({each.get('reason', '')})")


def _check(args: argparse.Namespace) -> int:
    """Send one request to a provider and print the outcome; return an exit code."""
    loaded = _load()[1]
    name: str = args.name
    found = asyncio.run(ask_provider(loaded, name))
    if args.as_json:
        result = {"name": name, "ok": not found.problem, "problem": found.problem, "base_url": found.url}
        say_json({**result, "models": list(found.models)}, 2)
    elif found.problem:
        say(found.problem, sys.stderr)
    else:
        count = f"; it names {plural(len(found.models), 'model')}" if found.models else ""
        taken, unsent = ("", found.key) if found.key.startswith(";") else (found.key, "")
        say(f"{name} answers at {found.url}{taken}{count}{unsent}{_missing(loaded, name, found.models)}.")
    return int(ExitCode.UNREACHABLE if found.problem else ExitCode.DONE)


def _add(args: argparse.Namespace) -> None:
    """Add a provider to config.yaml; the server is asked for the format if it is `auto`."""
    from agent.core.config.edit import put_entry
    from agent.core.config.env_file import keep_key
    from agent.model.catalog import PROVIDERS
    from agent.model.key_check import check_server, key_variable
    from agent.model.providers import checked_url

    home, loaded = _load()
    name = args.name
    if not _NAME.fullmatch(name):
        raise ConfigError("The name of a provider has letters, digits and `-`, `_`, `.` only, 64 at most.")
    if name in loaded.settings.providers or name in _OTHERWISE:
        raise ConfigError(f"The name {name} is taken; choose another one, or see `hermes providers`.")
    url = checked_url(args.url, "--url")
    variable = args.key_env
    key = variable_of(loaded, variable)
    if args.key_stdin:
        variable = key_variable(name)
        key = _typed_key()
        if any(variable == each.key_env for each in PROVIDERS.values()) and variable_of(loaded, variable):
            raise ConfigError(f"{variable} holds another key already; choose another name, or use --key-env.")
    elif variable and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable):
        raise ConfigError("--key-env takes the name of a variable; for the key itself there is --key-stdin.")
    entry = {"base_url": url}
    problem, models = "", 0
    if args.format != "auto":
        entry["format"] = args.format
    else:
        found = asyncio.run(check_server(url, key, ()))
        problem, models = found.problem, len(found.models)
        if not problem:
            entry |= {"base_url": found.base_url, "format": found.format}
    if variable:
        entry["api_key_env"] = variable
    if args.key_stdin:
        keep_key(home, variable, key)
    put_entry(home, ("providers", name), entry)
    stands_for = ", instead of the built-in one" if name in PROVIDERS else ""
    named = f"; it names {models} models" if models > 1 else ""
    say(f"Added {name} at {entry['base_url']}{stands_for}{named}.")
    if args.key_stdin:
        say(f"The key is in {home.env} as {variable}.")
        if os.environ.get(variable, key) != key:
            say(f"The variable {variable} of this shell is another one and counts first; unset it.")
    elif variable and not key:
        say(f"{variable} is not set yet.", sys.stderr)
    if problem:
        say(f"It was written as given, as asking it gave nothing: {problem}", sys.stderr)


def _typed_key() -> str:
    """Read a key from stdin. Raises `ConfigError` for an impossible key, without quoting it."""
    if sys.stdin.isatty():
        from getpass import getpass

        key = getpass("Key: ").strip()
    else:
        key = sys.stdin.read(_LONGEST_KEY).strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            "What came on stdin is not a key: it is empty or holds blanks or special characters."
        )
    return key


def _remove(args: argparse.Namespace) -> None:
    home, loaded = _load()
    name: str = args.name
    row = provider_row(home, loaded, name)
    remove_provider(home, loaded, name)
    say(f"Removed {name}." + (f" Its key is still in {row['key_env']}." if row["key_set"] else ""))
    if loaded.settings.model.name.startswith(f"{name}/"):
        advise(f"model.name is still {loaded.settings.model.name}; choose another with `hermes config set`.")


def _forget(args: argparse.Namespace) -> None:
    from agent.model.dialect_book import forget

    home, loaded = _load()
    name: str = args.name
    try:
        count = forget(home.root, name)
    except OSError as error:
        raise HermesError(f"What was learned cannot be changed: {error.strerror or error}.") from error
    if not count:
        provider_row(home, loaded, name)
    things = "1 thing" if count == 1 else f"{count} things"
    say(f"Forgot {things} about {name}." if count else f"Nothing was learned about {name}.")


def _missing(loaded: LoadedSettings, name: str, models: tuple[str, ...]) -> str:
    """Return a warning if the provider's list lacks the configured model; else ""."""
    provider, _, model = (loaded.settings.model.name or "").partition("/")
    if provider != name or not model or not models:
        return ""
    # Lists may have families (`openai/*`), tags (`small:latest`) or folders (`models/small`) in their names.
    if any(
        fnmatch(model, each) or model in (each.partition(":")[0], each.rpartition("/")[2]) for each in models
    ):
        return ""
    return f", but not {model}, which model.name asks for: choose another one (`hermes --model NAME`)"
