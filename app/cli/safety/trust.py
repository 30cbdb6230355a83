"""`hermes trust`: list everything that the user approved, and revoke single approvals."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import HermesError
from app.cli.frame import add_action, add_actions, answer, say, say_json
from app.service.credentials import Credentials
from tools.text.safe_text import clean
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.api.trust import TrustEntry


DESCRIPTION = (
    "List everything you agreed to (hooks, plugins, servers, settings and skills of "
    "projects, edited skills, passages, actions, browser profiles, people, jobs, devices), "
    "show one, or take it back."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options and actions of `hermes trust` to its parser."""
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    parser.set_defaults(do=run)
    actions = add_actions(parser)
    for name, text in (
        ("list", "everything you agreed to"),
        ("show", "all that is known of one, such as the texts of a plugin"),
        ("revoke", "take one back"),
    ):
        action = add_action(actions, name, text, run, json="")
        if name != "list":
            action.add_argument("id", metavar="ID", help="its id, as `hermes trust` lists it")
        # The option is valid before and after the action.
        action.add_argument(
            "--json", action="store_true", dest="as_json", default=argparse.SUPPRESS, help="print JSON"
        )


def run(args: argparse.Namespace) -> None:
    """List approvals, show one or revoke one. Raises `HermesError`."""
    entries = _entries(Home.locate())
    if args.action == "list":
        return _list(entries, args.as_json)
    entry = next((each for each in entries if each.id == args.id), None)
    if entry is None or (args.action == "revoke" and entry.take_back() is False):
        named = one_line(args.id)[:80]
        raise HermesError(f"Nothing you agreed to has the id {named}; `hermes trust` lists the ids.")
    if args.action == "show":
        return _show(entry, args.as_json)
    where = f" in {entry.where}" if entry.where else ""
    words = f"Your yes to {entry.words} {_line(entry.name)}{_line(where, ' ')} is taken back."
    return answer(args, {"revoked": entry.id}, words)


def _entries(home: Home) -> list[TrustEntry]:
    """Return everything that was approved; print a sentence for each source that cannot be read."""
    from agent.api.trust import TrustEntry, trust_entries

    found, problems = trust_entries(home, os.environ)
    credentials = Credentials(home.root / "serve")
    try:
        found += (
            TrustEntry(
                kind="device",
                words="the device",
                name=device.name,
                where=device.address,
                key=device.id,
                since=device.created,
                take_back=partial(credentials.revoke, device.id),
                read=lambda device=device: {
                    name: value for name, value in asdict(device).items() if name != "hash"
                },
            )
            for device in credentials.devices()
        )
    except HermesError as error:
        problems.append(str(error))
    for problem in problems:
        say(f"hermes: {clean(problem)}", sys.stderr)
    return found


def _list(entries: list[TrustEntry], as_json: bool) -> None:
    if as_json:
        say_json([_record(each) for each in entries])
        return
    for each in entries:
        since = f"  since {_time(each.since)[:10]}" if each.since is not None else ""
        place = f"  ({_line(each.where)})" if each.where else ""
        say(f"{each.id:<19}  {_line(each.name)[:100]}{place}{since}")
    if not entries:
        say("You have not agreed to anything yet.")


def _show(entry: TrustEntry, as_json: bool) -> None:
    record = _record(entry) | {"details": _clean_texts(entry.read())}
    if as_json:
        say_json(record)
        return
    for line in _lines(record, ""):
        say(line)


def _record(entry: TrustEntry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "name": clean(entry.name),
        "where": clean(entry.where),
        "since": _time(entry.since) if entry.since is not None else None,
        "hash": clean(entry.hash) or None,
        "id": entry.id,
    }


def _lines(data: dict[str, Any], indent: str) -> Iterator[str]:
    """Yield the data of an entry, one line per name; nested and multi-line values are indented below it."""
    for name, value in data.items():
        if value in (None, "", [], {}):
            continue
        head = f"{indent}{_line(name)}:"
        if isinstance(value, dict):
            yield head
            yield from _lines(value, f"{indent}  ")
        elif isinstance(value, str) and "\n" in value:
            yield head
            yield from (f"{indent}  {line}" for line in value.splitlines())
        else:
            yield f"{head} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"


def _clean_texts(value: Any) -> Any:
    """Return the value with terminal control sequences removed from its texts."""
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean(str(name)): _clean_texts(each) for name, each in value.items()}
        case list() | tuple():
            return [_clean_texts(each) for each in value]
        case _:
            return value


def _line(text: str, before: str = "") -> str:
    words = one_line(text)
    return f"{before}{words}" if words else ""


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):  # a file that somebody wrote by hand
        return ""
