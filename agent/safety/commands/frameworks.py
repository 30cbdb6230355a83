"""The programs by which frameworks test and serve a project: `manage.py` of Django, `artisan` of Laravel."""

from __future__ import annotations

import re

from agent.safety.commands.call import RUNS_PROJECT, Call, Opinion, ask
from agent.safety.commands.checkers import BUILDS
from agent.safety.commands.verbs import Verbs
from agent.safety.shell.marks import words

ARTISAN = Verbs(
    harmless=r"test|list|make:\w+|route:list|migrate:status|db:show|about|env|config:show|schedule:list|event:list|channel:list|model:show|help|inspire",
    reason="builds or tests the project",
    otherwise=RUNS_PROJECT,
    inside=True,
)
_PLANS = (("migrate", "--plan"), ("collectstatic", "--dry-run"), ("migrate", "--check"))
"""Subcommands of `manage.py` that change nothing with one option."""


def manage(call: Call) -> Opinion:
    """`manage.py` of Django: what tests and lists."""
    if call.inside and any(call.arguments[:1] == (verb,) and call.flag(option) for verb, option in _PLANS):
        return BUILDS if not call.flag("--settings", "--pythonpath") else ask(RUNS_PROJECT)
    if call.arguments[:1] == ("runserver",) and call.inside:
        plain = (re.fullmatch(_OWN_SERVER, argument) for argument in call.arguments[1:])
        return BUILDS if all(plain) else ask("opens a server to the network")
    return MANAGE(call)


_OWN_SERVER = (
    r"(?:(?:localhost|127\.0\.0\.1):)?\d{1,5}|--no(?:reload|threading|static)|--no-color|--skip-checks"
)
MANAGE = Verbs(
    harmless=r"test|check|makemigrations|showmigrations|diffsettings|validate|help|sqlmigrate|findstatic|show_urls|makemessages",
    reason="builds or tests the project",
    otherwise=RUNS_PROJECT,
    bare=False,
    dangerous=words("--settings --pythonpath --deploy"),
    inside=True,
)
"""`manage.py` of Django and `artisan` of Laravel: what tests and lists."""
