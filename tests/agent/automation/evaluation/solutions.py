"""One solution for each exercise of the suite `edits`: what the file reads when it is fixed."""

from __future__ import annotations

SOLUTIONS = {
    "leap-year": "def is_leap(y):\n    return y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)\n",
    "roman": """
PAIRS = zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), "M CM D CD C XC L XL X IX V IV I".split())
PAIRS = list(PAIRS)

def to_roman(number):
    text = ""
    for value, sign in PAIRS:
        text += sign * (number // value)
        number %= value
    return text
""",
    "binary-search": """
def find(items, wanted):
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] == wanted:
            return middle
        if items[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return -1
""",
    "mutable-default": """
def collect(item, into=None):
    into = [] if into is None else into
    into.append(item)
    return into
""",
    "late-binding": "def multipliers(count):\n    return [lambda x, i=i: x * i for i in range(count)]\n",
    "median": """
def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2
""",
    "chunks": """
def chunks(items, size):
    return [items[i:i + size] for i in range(0, len(items), size)]
""",
    "flatten": """
def flatten(items):
    found = []
    for item in items:
        found += flatten(item) if isinstance(item, (list, tuple)) else [item]
    return found
""",
    "word-count": """
import re

def count_words(text):
    found = {}
    for word in re.findall(r"[\\w']+", text.lower()):
        found[word] = found.get(word, 0) + 1
    return found
""",
    "csv-quotes": "import csv\n\ndef parse_line(line):\n    return next(csv.reader([line]))\n",
    "merge-intervals": """
def merge(intervals):
    merged = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([begin, end])
    return merged
""",
    "stack-brackets": """
def balanced(text):
    pairs, stack = {")": "(", "]": "[", "}": "{"}, []
    for sign in text:
        if sign in "([{":
            stack.append(sign)
        elif sign in pairs and (not stack or stack.pop() != pairs[sign]):
            return False
    return not stack
""",
    "cache-bound": """
class Cache:
    def __init__(self, size):
        self.size = size
        self.data = {}

    def get(self, key):
        if key not in self.data:
            return None
        value = self.data[key] = self.data.pop(key)
        return value

    def put(self, key, value):
        self.data.pop(key, None)
        self.data[key] = value
        if len(self.data) > self.size:
            del self.data[next(iter(self.data))]
""",
    "json-dates": """
import json

def dump(value):
    return json.dumps(value, default=lambda each: each.isoformat())
""",
    "path-join": """
import os

def inside(folder, path):
    folder, path = os.path.normpath(folder), os.path.normpath(path)
    return path == folder or path.startswith(folder + os.sep)
""",
    "slug": """
import re
import unicodedata

def slug(title):
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return "-".join(re.findall("[a-z0-9]+", plain.lower()))
""",
    "generator-twice": """
def statistics(values):
    values = list(values)
    return {"count": len(values), "mean": sum(values) / len(values) if values else 0}
""",
    "retry": """
def retry(action, times):
    for left in reversed(range(times)):
        try:
            return action()
        except ValueError:
            if not left:
                raise
""",
    "matrix": "def transpose(rows):\n    return [list(column) for column in zip(*rows)]\n",
    "primes": """
def primes(n):
    sieve = bytearray([1]) * n
    sieve[:2] = b"\\0\\0"[:n]
    for i in range(2, int(n ** 0.5) + 1):
        if sieve[i]:
            sieve[i * i::i] = bytes(len(range(i * i, n, i)))
    return [i for i in range(n) if sieve[i]]
""",
    "fibonacci-slow": """
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a
""",
    "dedupe": """
def dedupe(items):
    found = []
    for item in items:
        if item not in found:
            found.append(item)
    return found
""",
    "deep-merge": """
def merge(first, second):
    merged = dict(first)
    for key, value in second.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged
""",
    "rounding": """
from decimal import ROUND_HALF_UP, Decimal

def to_cents(amount):
    return int((Decimal(amount) * 100).quantize(Decimal(1), ROUND_HALF_UP))
""",
    "bank": """
class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def withdraw(self, amount):
        if not 0 < amount <= self.balance:
            raise ValueError(amount)
        self.balance -= amount
        return self.balance
""",
    "context-manager": """
class Timer:
    def __init__(self, done):
        self.done = done

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.done()
""",
    "tree-depth": """
def depth(tree):
    deepest, waiting = 0, [(tree, 1)]
    while waiting:
        (_, children), level = waiting.pop()
        deepest = max(deepest, level)
        waiting += [(child, level + 1) for child in children]
    return deepest
""",
    "topological": """
from graphlib import TopologicalSorter

def order(needs):
    return list(TopologicalSorter(needs).static_order())
""",
    "time-zones": """
from datetime import datetime

def hours_between(first, second):
    return (datetime.fromisoformat(second) - datetime.fromisoformat(first)).total_seconds() / 3600
""",
    "cli": """
import sys

try:
    print(sum([int(each) for each in sys.argv[1:]]))
except ValueError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
""",
    "async-order": """
import asyncio

async def fetch_all(actions):
    return await asyncio.gather(*(action() for action in actions))
""",
    "template": """
import re

def fill(text, values):
    def put(found):
        said = found.group()
        if said in ("{{", "}}"):
            return said[0]
        return str(values.get(said[1:-1], said))

    return re.sub(r"{{|}}|{\\w+}", put, text)
""",
    "rename-api": """
class Store:
    def __init__(self, data):
        self.data = data

    def load(self, key):
        return self.data[key]

    fetch = load


def first(store, keys):
    return store.load(keys[0])
""",
    "two-files": 'PRICES = {"tea": 3, "cake": 5}\n\n\ndef price_of(name):\n    return PRICES.get(name, 0)\n',
}
FILES = {"two-files": "prices.py", "cli": "args.py"}
"""Files to be fixed that are not called `part.py`."""
