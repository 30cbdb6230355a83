"""The command `/futures`: begin them, see how they stand, stop them, go on with one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent.errors import ConfigError
from tools.text import clean

if TYPE_CHECKING:
    from agent.futures import Future
    from app.application import HermesApp

USAGE = "Write /futures 3 and the message; /futures pick 2 goes on with one, /futures stop ends them."
_MODELS = "models="


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for."""

    act: Literal["begin", "list", "stop", "pick"]
    number: int | None = None
    """How many to begin, or which one is meant."""
    message: str = ""
    models: tuple[str, ...] = ()


def read(argument: str) -> Wish:
    """What the words after the command mean. Raises `ConfigError`. Pure."""
    word, _, rest = argument.strip().partition(" ")
    rest = rest.strip()
    if not word or (word == "list" and not rest):
        return Wish("list")
    if word == "stop" and (not rest or _is_number(rest)):
        return Wish("stop", int(rest) if rest else None)
    if word == "pick" and _is_number(rest):
        return Wish("pick", int(rest))
    if not _is_number(word):
        raise ConfigError(USAGE)
    models: tuple[str, ...] = ()
    if rest.startswith(_MODELS):
        named, _, rest = rest.removeprefix(_MODELS).partition(" ")
        models = tuple(filter(None, named.split(",")))
    if not rest.strip():
        raise ConfigError(USAGE)
    return Wish("begin", int(word), rest.strip(), models)


def told(futures: Sequence[Future]) -> str:
    """How futures stand, a line for each. Pure."""
    if not futures:
        return f"There are no futures in this session yet. {USAGE}"
    return "\n".join(_line(future) for future in futures)


def _line(future: Future) -> str:
    state = "works" if future.running else _ENDED.get(future.outcome, future.outcome)
    paths = f"{future.changed:,} {'path' if future.changed == 1 else 'paths'} changed"
    calls = f"{future.calls:,} {'call' if future.calls == 1 else 'calls'}"
    about = [state, calls] if future.running else [state, calls, paths]
    if future.model:
        about.insert(0, clean(future.model))
    words = " ".join(clean(future.text).split())[:120]
    return f"{future.head}: {', '.join(about)}" + (f". {words}" if words else "")


_ENDED = {"interrupted": "stopped", "budget": "requests used up", "denied": "stopped at the gate"}


async def carry_out(app: HermesApp, argument: str) -> str:
    """Do what was asked for; a notice about it. Raises `HermesError`."""
    wish = read(argument)
    futures = app.need_engine().futures
    if wish.act == "begin":
        app.say("The project is being copied.")
        begun = await futures.start(wish.message, wish.number or 0, wish.models or None)
        names = ", ".join(future.head for future in begun)
        left = next((future.left_out for future in begun if future.left_out), "")
        whole = f" Copies are {clean(left)}." if left else ""
        return f"At work on it: {names}. The project stays as it is until you pick one.{whole}"
    if wish.act == "stop":
        stopped = futures.stop(wish.number)
        names = ", ".join(future.head for future in stopped)
        return f"Stopped: {names}." if stopped else "None of them works at the moment."
    if wish.act == "pick" and wish.number is not None:
        return await app.journeys.switch(futures.ended(wish.number).head)
    return told(futures.all)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 4
