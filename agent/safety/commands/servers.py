"""Servers of the project that only this machine can reach: started as `npm start` starts one."""

from __future__ import annotations

import re

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.shell.marks import UNKNOWN, words

STARTS = ask("starts or changes a server")
_SERVES = fine("starts a server of the project for this machine")

_LOCAL = re.compile(r"localhost|127\.0\.0\.1|::1")
_LOCAL_BIND = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?")
_APPLICATION = re.compile(r"\w+(?:\.\w+)*:\w+(?:\(\))?")
_HARMLESS = words(
    "--reload --factory --access-log --no-access-log --use-colors --no-use-colors --debug "
    "--no-debug --no-reload --with-threads --without-threads --debugger --no-debugger"
)
_NUMBERS = words("--port -p --workers -w --threads --timeout -t --timeout-keep-alive --limit-concurrency")
_WORDS = words("--log-level --worker-class -k --loop --http --ws --lifespan --name -n")


def _is_local(call: Call, arguments: list[str]) -> bool:
    """Whether all options are known, and none opens the server to others or loads something else."""
    while arguments:
        option, equals, glued = arguments.pop(0).partition("=")
        if option in _HARMLESS and not equals:
            continue
        if option not in _NUMBERS | _WORDS | {"--host", "-h", "--bind", "-b", "--app-dir", "--reload-dir"}:
            return False
        value = glued if equals else arguments.pop(0) if arguments else UNKNOWN
        fits = {
            "--host": _LOCAL,
            "-h": _LOCAL,
            "--bind": _LOCAL_BIND,
            "-b": _LOCAL_BIND,
        }.get(option, re.compile(r"\d+" if option in _NUMBERS else r"[a-z][\w.]*"))
        if option in ("--app-dir", "--reload-dir"):
            if not call.ground.inside(call.path(value)):
                return False
        elif not fits.fullmatch(value):
            return False
    return True


def application_server(call: Call) -> Opinion:
    """uvicorn, gunicorn and their like, with one application of the project."""
    if call.arguments in (("--version",), ("--help",)):
        return fine("only looks")
    places = [at for at, argument in enumerate(call.arguments) if _APPLICATION.fullmatch(argument)]
    if len(places) != 1 or call.unsure or not call.inside:
        return STARTS
    rest = [argument for at, argument in enumerate(call.arguments) if at != places[0]]
    return _SERVES if _is_local(call, rest) else STARTS


def flask_server(call: Call) -> Opinion | None:
    """The opinion on `flask run`; None when it is another subcommand."""
    arguments = list(call.arguments)
    while len(arguments) > 1 and arguments[0] in ("--app", "-A"):
        del arguments[:2]
    arguments = [argument for argument in arguments if argument not in ("--debug", "--no-debug")]
    if arguments[:1] != ["run"]:
        return None
    return _SERVES if call.inside and not call.unsure and _is_local(call, arguments[1:]) else STARTS


RULES: dict[str, Rule] = dict.fromkeys(("uvicorn", "gunicorn", "hypercorn"), application_server)
