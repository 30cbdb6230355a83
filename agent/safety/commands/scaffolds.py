"""New projects, applications and environments: `uv init`, `mix new`, `django-admin startproject`.

They write files that everybody can read beforehand into a folder of the workspace. Templates from
elsewhere, and generators that install what they name, are no part of this.
"""

from __future__ import annotations

import re

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.shell.marks import words

_PLACE = r"(?: (?P<place>[\w./-]+))"
_MAKES: dict[str, re.Pattern[str]] = {
    name: re.compile(said)
    for name, said in {
        "uv": rf"init{_PLACE}?",
        "poetry": rf"new{_PLACE}|init",
        "pdm": "init",
        "hatch": rf"new{_PLACE}",
        "mix": rf"new{_PLACE}",
        "django-admin": rf"(?:startproject|startapp) \w+{_PLACE}?|version|check",
        "composer": "init",
        "helm": rf"create{_PLACE}",
        "kustomize": "create",
        "swift": "package init",
        "virtualenv": _PLACE.replace(" ", "", 1),
        "bundle": rf"gem{_PLACE}",
        "cabal": "init",
        "dune": rf"init (?:proj|project|lib|exe) \w+{_PLACE}?",
        "crystal": rf"init (?:app|lib) \w+{_PLACE}?",
        "gleam": rf"new{_PLACE}",
        "deno": rf"init{_PLACE}?",
        "bun": "init",
    }.items()
}
NAMES = frozenset(_MAKES)

_OPTIONS = re.compile(
    r"--(?:lib|app|package|bare|no-readme|no-workspace|no-pin-python|sup|umbrella|no-ecto|quiet|no-interaction"
    r"|src|flat|executable|library|autodetect|recursive|non-interactive|clear|system-site-packages|no-description"
    r"|(?:name|type|python|module|prompt|resources|namespace|description|license)=[\w.,@/ -]+)|-[nqym]"
)
_VALUED = words("--name --type --python -p --module --prompt --resources --namespace --description")
_ASKS_BY_ITSELF = frozenset({("composer", "init"), ("poetry", "init"), ("bun", "init"), ("pdm", "init")})
"""What asks questions unless it is told not to."""
_SILENT = frozenset({"-n", "-y", "--no-interaction", "--non-interactive"})
_VALUE = re.compile(r"[\w.,@/ -]+")


def _makes(call: Call) -> bool:
    said: list[str] = []
    rest = list(call.arguments)
    while rest:
        argument = rest.pop(0)
        if argument in _VALUED:
            if not rest or not _VALUE.fullmatch(rest.pop(0)):
                return False
        elif argument.startswith("-"):
            if not _OPTIONS.fullmatch(argument):
                return False
        else:
            said.append(argument)
    match = _MAKES[call.name].fullmatch(" ".join(said))
    if match is None or not call.inside:
        return False
    if (call.name, said[0]) in _ASKS_BY_ITSELF and _SILENT.isdisjoint(call.arguments):
        return False
    place = match.groupdict().get("place") or "."
    return not call.changed([place])


def first(rule: Rule | None) -> Rule:
    """The rule, unless the call makes a new project; programs without a rule are not known otherwise."""

    def judged(call: Call) -> Opinion:
        if _makes(call):
            return fine("makes a new project")
        return rule(call) if rule is not None else ask(f"is not known to be harmless: {call.name}")

    return judged
