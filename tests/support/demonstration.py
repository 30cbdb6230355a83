"""Three agents in copies of a small real project: one fails, one is told better, one is stopped.

Told by a script, carried out by the real program. `tests/app/tui/test_demonstration.py` plays it
with a person who is a test; `benchmarks/agents_demonstration.py` lets anybody be the person.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.project import make_project
from tests.support.replies import Reply, call, say
from tests.support.team import report, task_of

TASK = "The shop shows wrong amounts. Have the rounding, the invoice and the docs looked after side by side."
STEER = "Use Decimal, not float."
"""What the agent `money` is told while it works."""

GOALS = {
    "invoice": "Make the total of an invoice count every line",
    "money": "Make amounts round to what their currency can express",
    "docs": "Write down how amounts are rounded",
}
"""What each of the three is sent for, by its name, in the order in which they are sent."""

MISTAKEN = "def total(lines, currency):\n    return sum(lines)\n"
FLOATS = "def round_amount(amount, currency):\n    return round(amount, 0 if currency == 'JPY' else 2)\n"
DECIMALS = '''\
"""Amounts of money."""

from decimal import Decimal

DIGITS = {"EUR": 2, "USD": 2, "JPY": 0}


def round_amount(amount, currency):
    """Round to what the currency can express."""
    return Decimal(str(amount)).quantize(Decimal(1).scaleb(-DIGITS[currency]))
'''
ROUNDING = "# Rounding\n\nAmounts are rounded to what their currency can express.\n"
DRAFT = "Is a yen a cent? To be looked up.\n"


def script(wait: str, word: float = 0.02, before: float = 0.0) -> Callable[[Any], Reply]:
    """What the model says to whom.

    `wait` is the command during which `money` can be told something, `word` the seconds between
    words of `docs`, which writes until it is stopped, `before` those before each answer.
    """
    long = say("I look at one more page of the docs. " * 600, piece=8, pace=word)
    scripts: dict[str, Sequence[Reply] | Callable[[Any], Reply]] = {
        GOALS["invoice"]: [
            call("write_file", path="shop/invoice.py", content=MISTAKEN),
            call("terminal", command="python3 -B -m unittest discover -s tests -t . 2>&1 | tail -n 3"),
            say(report("The tests fail with it, and I do not see why.", "failed")),
        ],
        GOALS["money"]: lambda request: _money(request, wait),
        GOALS["docs"]: [
            call("write_file", path="docs/rounding.md", content=ROUNDING),
            call("write_file", path="docs/draft.md", content=DRAFT),
            long,
        ],
        "main": [
            call(
                "delegate_task",
                tasks=[{"goal": goal, "agent": name} for name, goal in GOALS.items()],
                isolation="copy",
            ),
            say("One failed, one is done, one was stopped. Look at their copies: M in the pane of agents."),
        ],
    }

    def answer(request: Any) -> Reply:
        told = scripts[task_of(request)]
        done = sum(message["role"] == "tool" for message in request.messages)
        reply = told(request) if callable(told) else told[min(done, len(told) - 1)]
        return replace(reply, delay=before)

    return answer


def _money(request: Any, wait: str) -> Reply:
    """It rounds floats, until it is told otherwise."""
    done = sum(message["role"] == "tool" for message in request.messages)
    told = any(STEER in str(message["content"]) for message in request.messages if message["role"] == "user")
    steps = [
        call("write_file", path="shop/money.py", content=FLOATS),
        call("terminal", command=wait),
        call("write_file", path="shop/money.py", content=DECIMALS if told else FLOATS),
        say(report("Amounts are Decimals now, as I was told." if told else "Amounts are rounded.")),
    ]
    return steps[min(done, len(steps) - 1)]


def make_repository(folder: Path) -> Path:
    """The project as a git repository with one commit, and a file of the person beside it."""
    make_project(folder)
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for arguments in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-q", "-m", "The shop")):
        subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
    (folder / ".gitignore").chmod(0o600)
    (folder / "notes.bin").write_bytes(bytes(range(256)))
    return folder
