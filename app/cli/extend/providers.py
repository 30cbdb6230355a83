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
from app.cli.frame import add_action, add_json, load_settings, say, say_json
from themes.states import glyph
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OTHERWISE = ("local", "demo", "custom")
"""Names that mean something else where a model is named."""
_LONGEST_KEY = 8192


DESCRIPTION = (
    "List the providers of models, add one of your own, check one with a request that costs "
    "nothing, remove one, and show or forget what was learned of one."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommand."""
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


def _rows(home: Home, loaded: LoadedSettings) -> list[dict[str, Any]]:
    """Return a row for every provider: from the settings first, then built-in ones and the environment's."""
    from agent.model.addresses import plain_address
    from agent.model.catalog import PROVIDERS
    from agent.model.dialect_book import learned_of
    from agent.model.providers import address_of, seller

    own = loaded.settings.providers
    rows: list[dict[str, Any]] = []
    names: list[str] = [*own, *(name for name in PROVIDERS if name not in own)]
    if _variable(loaded, "OPENAI_BASE_URL") and "custom" not in own:
        names.append("custom")
    for name in names:
        known = PROVIDERS.get(name)
        if name in own:
            url = address_of(loaded.settings, loaded.environ, name)
            sold = PROVIDERS.get(seller(url))
            usual = known.key_env if known is not None and known is sold else ""
            key = own[name].api_key_env or usual
            format = own[name].format or (sold.format if sold else "chat")
        elif known is not None:
            url, key, format = known.base_url, known.key_env, known.format
        else:
            url, key, format = _variable(loaded, "OPENAI_BASE_URL"), "OPENAI_API_KEY", "chat"
        row = {
            "name": name,
            "base_url": url if url.startswith("${") else plain_address(url),
            "format": format,
            "key_env": key,
            "key_set": bool(_variable(loaded, key)),
            "built_in": name not in own and known is not None,
            "learned": len(learned_of(home.root, name)),
        }
        rows.append(row)
    return rows


def _list(args: argparse.Namespace) -> None:
    rows = _rows(*_load())
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
    from agent.model.dialect_book import dialect_name, learned_of
    from agent.model.providers import seller

    home, loaded = _load()
    name: str = args.name
    row = _row(home, loaded, name)
    own = loaded.settings.providers.get(name)
    url = row["base_url"]
    dialect = dialect_name(home.root, name, url, chosen=own.dialect if own else "", seller=seller(url))
    learned = learned_of(home.root, name)
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
    say("  learned  " + (f"`hermes providers forget {name}` drops it:" if learned else "nothing"))
    for address, model, each in learned:
        say(f"    {model} at {address}: {each.get('rule', '')} ({each.get('reason', '')})")


def _check(args: argparse.Namespace) -> int:
    """Send one request to a provider and print the outcome."""
    from agent.model.addresses import plain_address
    from agent.model.catalog import PROVIDERS
    from agent.model.key_check import KeyCheck, KeyProvider, check_key
    from agent.model.providers import reach, seller

    loaded = _load()[1]
    name: str = args.name
    url, key = "", ""
    models: tuple[str, ...] = ()
    found = KeyCheck("")
    try:
        target = reach(loaded.settings, loaded.environ, name)
    except ConfigError as error:
        if name not in loaded.settings.providers and name not in PROVIDERS:
            raise
        found, target, key = KeyCheck(str(error)), None, ""
    if target is not None:
        url, key = plain_address(target.base_url), target.api_key
        path = PROVIDERS[sold].key_path if (sold := seller(target.base_url)) else "models"
        asked = KeyProvider(
            name=name,
            variable=target.key_hint or "the key",
            base_url=target.base_url,
            format=target.format,
            path=path,
            headers=target.headers,
            secrets=target.secrets,
            is_named=bool(target.key_hint),
        )
        found = asyncio.run(check_key(asked, key, listed=path == "models"))
        models = found.models
    if args.as_json:
        result = {"name": name, "ok": not found.problem, "problem": found.problem, "base_url": url}
        say_json({**result, "models": list(models)}, 2)
    elif found.problem:
        say(found.problem, sys.stderr)
    else:
        taken = f" and takes the key in {target.key_hint}" if target is not None and key else ""
        count = f"; it names {plural(len(models), 'model')}" if models else ""
        unsent = "; no key was sent" if target is not None and target.key_hint and not key else ""
        say(f"{name} answers at {url}{taken}{count}{unsent}{_missing(loaded, name, models)}.")
    return int(ExitCode.UNREACHABLE if found.problem else ExitCode.DONE)


def _add(args: argparse.Namespace) -> None:
    """Add a provider to config.yaml; the format `auto` is detected by asking the server."""
    from agent.core.config.edit import put_entry
    from agent.core.config.env_file import keep_key
    from agent.model.catalog import PROVIDERS
    from agent.model.key_check import check_server
    from agent.model.providers import checked_url

    home, loaded = _load()
    name = args.name
    if not _NAME.fullmatch(name):
        raise ConfigError("The name of a provider has letters, digits and `-`, `_`, `.` only, 64 at most.")
    if name in loaded.settings.providers or name in _OTHERWISE:
        raise ConfigError(f"The name {name} is taken; choose another one, or see `hermes providers`.")
    url = checked_url(args.url, "--url")
    variable = args.key_env
    key = _variable(loaded, variable)
    if args.key_stdin:
        variable = f"{re.sub(r'[^A-Z0-9]', '_', name.upper())}_API_KEY"
        variable = f"_{variable}" if variable[0].isdigit() else variable
        key = _typed_key()
        if any(variable == each.key_env for each in PROVIDERS.values()) and _variable(loaded, variable):
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
        raise ConfigError("What came on stdin is no key: it is empty or holds blanks or special characters.")
    return key


def _remove(args: argparse.Namespace) -> None:
    from agent.core.config.edit import drop_entry
    from agent.model.dialect_book import forget

    home, loaded = _load()
    name: str = args.name
    row = _row(home, loaded, name)
    if row["built_in"]:
        way = f"unset {row['key_env']}" if row["key_set"] else "it is only used where you name it"
        raise ConfigError(
            f"{name} is built in and stays; {way}, or put another address in its place with "
            f"`hermes providers add {name} --url URL`."
        )
    if not drop_entry(home, ("providers", name)):
        where = "OPENAI_BASE_URL; unset it" if name == "custom" else "other settings; take it out there"
        raise ConfigError(f"{name} does not stand in {home.config} but comes from {where}.")
    forget(home.root, name)
    say(f"Removed {name}." + (f" Its key is still in {row['key_env']}." if row["key_set"] else ""))
    if loaded.settings.model.name.startswith(f"{name}/"):
        say(f"model.name is still {loaded.settings.model.name}; choose another with `hermes config set`.")


def _forget(args: argparse.Namespace) -> None:
    from agent.model.dialect_book import forget

    home, loaded = _load()
    name: str = args.name
    try:
        count = forget(home.root, name)
    except OSError as error:
        raise HermesError(f"What was learned cannot be changed: {error.strerror or error}.") from error
    if not count:
        _row(home, loaded, name)
    things = "1 thing" if count == 1 else f"{count} things"
    say(f"Forgot {things} about {name}." if count else f"Nothing was learned of {name}.")


def _row(home: Home, loaded: LoadedSettings, name: str) -> dict[str, Any]:
    """Return the row of one provider. Raises `ConfigError` if there is none of this name."""
    for row in _rows(home, loaded):
        if row["name"] == name:
            return row
    raise ConfigError(f"There is no provider {name!r}; `hermes providers` lists them.")


def _variable(loaded: LoadedSettings, name: str) -> str:
    return loaded.environ.get(name, "").strip() if name else ""


def _missing(loaded: LoadedSettings, name: str, models: tuple[str, ...]) -> str:
    """Return a warning if the configured model is not on its provider's list; else an empty text."""
    provider, _, model = (loaded.settings.model.name or "").partition("/")
    if provider != name or not model or not models:
        return ""
    # Lists may have families (`openai/*`), tags (`small:latest`) or folders (`models/small`) in their names.
    if any(
        fnmatch(model, each) or model in (each.partition(":")[0], each.rpartition("/")[2]) for each in models
    ):
        return ""
    return f", but not {model}, which model.name asks for: choose another one (`hermes --model NAME`)"
