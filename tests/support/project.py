"""A small real project with two faults, and a scripted engineer who mends it in twelve steps.

The script decides from the conversation alone, so it goes on correctly after a
crash: its next step is the first one whose call has no lasting result yet.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MONEY = '''\
"""Amounts of money."""

DIGITS = {"EUR": 2, "USD": 2, "JPY": 0}


def round_amount(amount, currency):
    """Round to what the currency can express."""
    return round(amount, 2)


def label(amount, currency):
    """The amount as text, such as `12.50 EUR`."""
    return f"{round_amount(amount, currency):.2f} {currency}"
'''

INVOICE = '''\
"""Invoices."""

from shop.money import round_amount


def total(lines, currency):
    """The sum of (quantity, price) lines."""
    result = 0
    for quantity, price in lines[1:]:
        result += quantity * price
    return round_amount(result, currency)
'''

TESTS = """\
import unittest

from shop.invoice import total
from shop.money import label, round_amount


class Shop(unittest.TestCase):
    def test_yen_have_no_decimals(self):
        self.assertEqual(round_amount(10.6, "JPY"), 11)

    def test_label_of_yen(self):
        self.assertEqual(label(10.6, "JPY"), "11 JPY")

    def test_label_of_euros(self):
        self.assertEqual(label(10.5, "EUR"), "10.50 EUR")

    def test_total_counts_every_line(self):
        self.assertEqual(total([(2, 1.5), (1, 2.0)], "EUR"), 5.0)
"""

RUN_TESTS = f"{shlex.quote(sys.executable)} -B -m unittest discover -s tests -t . 2>&1 | tail -n 20"
ANSWER = "The yen rounding and the invoice total are mended; all four tests pass."
TASK = "Two tests of this project fail. Find out why, mend it and run the tests."

TODOS = [
    {"id": "1", "content": "See what fails", "status": "in_progress"},
    {"id": "2", "content": "Mend the rounding", "status": "pending"},
    {"id": "3", "content": "Mend the total", "status": "pending"},
]

Step = tuple[str, dict[str, Any]]

STEPS: tuple[Step, ...] = (
    ("todo_write", {"todos": TODOS}),
    ("search", {"pattern": "round_amount"}),
    ("read_file", {"path": "shop/money.py"}),
    ("read_file", {"path": "shop/invoice.py"}),
    ("terminal", {"command": RUN_TESTS}),
    (
        "patch",
        {
            "mode": "replace",
            "path": "shop/money.py",
            "old_string": "return round(amount, 2)",
            "new_string": "return round(amount, DIGITS[currency] or None)",
        },
    ),
    (
        "patch",
        {
            "mode": "replace",
            "path": "shop/invoice.py",
            "old_string": "in lines[1:]:",
            "new_string": "in lines:",
        },
    ),
    ("terminal", {"command": RUN_TESTS + " # again"}),
    ("read_file", {"path": "tests/test_shop.py"}),
    (
        "patch",
        {
            "mode": "replace",
            "path": "shop/money.py",
            "old_string": 'return f"{round_amount(amount, currency):.2f} {currency}"',
            "new_string": 'return f"{round_amount(amount, currency):.{DIGITS[currency]}f} {currency}"',
        },
    ),
    ("terminal", {"command": RUN_TESTS + " # at last"}),
    ("todo_write", {"todos": [{**todo, "status": "completed"} for todo in TODOS]}),
)


def make_project(folder: Path) -> Path:
    """Write the project into `folder` and return it."""
    for name, text in {
        "shop/__init__.py": "",
        "shop/money.py": MONEY,
        "shop/invoice.py": INVOICE,
        "tests/__init__.py": "",
        "tests/test_shop.py": TESTS,
        ".gitignore": "__pycache__/\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def is_mended(folder: Path) -> bool:
    """Whether all three mends are in the files."""
    money = (folder / "shop/money.py").read_text(encoding="utf-8")
    invoice = (folder / "shop/invoice.py").read_text(encoding="utf-8")
    return "DIGITS[currency] or None" in money and ".{DIGITS[currency]}f" in money and "in lines:" in invoice


def next_step(messages: Sequence[dict[str, Any]]) -> Step | None:
    """What the engineer does next, given the messages of a request; None when all is done."""
    results = {
        message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"
    }
    lasting = set()
    for message in messages:
        for call in message.get("tool_calls") or ():
            result = results.get(call["id"], "Interrupted")
            if "Interrupted" not in result:
                lasting.add(_key(call["function"]["name"], json.loads(call["function"]["arguments"])))
    return next((step for step in STEPS if _key(*step) not in lasting), None)


def _key(name: str, arguments: dict[str, Any]) -> str:
    return name + json.dumps(arguments, sort_keys=True)
