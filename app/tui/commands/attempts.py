"""The command `/attempts`: start parallel attempts at a task, list them, stop them, continue with one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent.errors import ConfigError
from themes.states import glyph
from tools.text.safe_text import clean
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.api.session import LiveAttempt
    from app.tui.commands.history_actions import HistoryPort


USAGE = "Write /attempts 3 and the message; /attempts pick 2 continues with one, /attempts stop ends them."
_MODELS = "models="


@dataclass(frozen=True, slots=True)
class AttemptsRequest:
    """A parsed `/attempts` command."""

    act: Literal["begin", "list", "stop", "pick"]
    number: int | None = None
    """The number of attempts to start, or the number of one attempt."""
    message: str = ""
    models: tuple[str, ...] = ()


def read(argument: str) -> AttemptsRequest:
    """Parse the argument of `/attempts`. Raises `ConfigError`. Pure."""
    word, _, rest = argument.strip().partition(" ")
    rest = rest.strip()
    if not word or (word == "list" and not rest):
        return AttemptsRequest("list")
    if word == "stop" and (not rest or _is_number(rest)):
        return AttemptsRequest("stop", int(rest) if rest else None)
    if word == "pick" and _is_number(rest):
        return AttemptsRequest("pick", int(rest))
    if not _is_number(word):
        raise ConfigError(USAGE)
    models: tuple[str, ...] = ()
    if rest.startswith(_MODELS):
        named, _, rest = rest.removeprefix(_MODELS).partition(" ")
        models = tuple(filter(None, named.split(",")))
    if not rest.strip():
        raise ConfigError(USAGE)
    return AttemptsRequest("begin", int(word), rest.strip(), models)


def attempts_text(attempts: Sequence[LiveAttempt]) -> str:
    """Return the state of the attempts, one line for each, or a sentence if there are none. Pure."""
    if not attempts:
        return f"There are no attempts in this session yet. {USAGE}"
    return "\n".join(_line(each) for each in attempts)


def _line(attempt: LiveAttempt) -> str:
    running = attempt.outcome == "running"
    state = "works" if running else _ENDED.get(attempt.outcome, attempt.outcome)
    paths = f"{attempt.changed:,} {'path' if attempt.changed == 1 else 'paths'} changed"
    calls = f"{attempt.calls:,} {'call' if attempt.calls == 1 else 'calls'}"
    about = [state, calls] if running else [state, calls, paths]
    if attempt.model:
        about.insert(0, clean(attempt.model))
    words = one_line(attempt.text)[:120]
    return f"{glyph(attempt.outcome)} {attempt.head}: {', '.join(about)}" + (f". {words}" if words else "")


_ENDED = {"interrupted": "stopped", "budget": "requests used up", "denied": "stopped: denied"}


async def carry_out(app: HistoryPort, argument: str) -> str:
    """Run the `/attempts` command; return a notice about the result. Raises `HermesError`."""
    wish = read(argument)
    attempts = app.need_client().attempts
    if wish.act == "begin":
        app.show_notice("The project is being copied.")
        begun = await attempts.start(wish.message, wish.number or 0, wish.models or None)
        names = ", ".join(each.head for each in begun)
        left = next((each.left_out for each in begun if each.left_out), "")
        whole = f" Copies are {clean(left)}." if left else ""
        pick = f"/attempts pick {begun[0].head.rpartition('-')[2]}"
        return f"At work on it: {names}. The project stays as it is until you pick one: {pick}.{whole}"
    if wish.act == "stop":
        stopped = await attempts.stop(wish.number)
        names = ", ".join(each.head for each in stopped)
        return f"Stopped: {names}." if stopped else "None of them works at the moment."
    if wish.act == "pick" and wish.number is not None:
        return await app.history_actions.switch((await attempts.ended_attempt(wish.number)).head)
    return attempts_text(await attempts.list_attempts())


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 4
