"""Dialects of a session's models, with rules that this or another process learned from refusals.

Learned rules are stored in `dialects/learned.json` of the Hermes home, by provider, address and model, and
are applied from then on; `hermes providers forget` deletes them.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent.core.home import PRIVATE_FILE, private_folder
from agent.model.addresses import plain_address
from agent.model.dialect import DEFAULT, FOLDER, Dialect, choose, load
from agent.model.repairs import Repair
from tools.kit.files import file_lock, write_atomically

log = logging.getLogger(__name__)

LEARNED = "learned.json"
MOST_LEARNED = 50
"""The maximum number of changes stored for one model."""
LONGEST_REASON = 300
WINDOW_LASTS = 86_400
"""Seconds during which a window named in a refusal is used."""


@dataclass(frozen=True, slots=True)
class LearnedRule:
    """One rule about a model, learned from a refusal."""

    provider: str
    model: str
    rule: str
    reason: str
    """The provider's refusal, shortened."""
    change: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        """A sentence about the rule for the user."""
        label = f"{self.provider}/{self.model}"
        what = _SENTENCES.get(self.rule, "is asked in another form")
        if fields := self.change.get("limits", {}).get("without"):
            what = f"is asked without {', '.join(fields)}"
        elif self.rule == "drop_image" and self.change.get("images", {}).get("taken") is False:
            what = "is sent no images"
        elif self.change.get("roles", {}).get("single_calls"):
            what = "is sent each call with its result by itself"
        elif self.change.get("calls", {}).get("named"):
            what = "is sent the name of the tool with each result"
        elif self.change.get("calls", {}).get("text") is False:
            what = "is sent no text beside calls"
        elif longest := self.change.get("tools", {}).get("longest"):
            what = f"is shown {longest:,} characters of each description"
        elif self.rule == "drop_tool":
            tools = [each.partition(":")[0] for each in self.change.get("tools", {}).get("without", ())]
            what = f"is offered no {', '.join(tools)}, whose description it refuses"
        elif self.rule == "rename_limit" and (most := self.change.get("limits", {}).get("output_max")):
            what = f"is asked for {most:,} tokens of a reply at most"
        elif window := self.change.get("limits", {}).get("window"):
            what = f"counts as one with a window of {window:,} tokens"
        return f"{label} {what} from now on, as it refused the request: {self.reason}"


_SENTENCES = {
    "merge_roles": "is sent messages of both sides by turns",
    "close_results": "is sent a short answer behind each result that nobody continued",
    "return_thinking": "gets its thoughts back with its calls",
    "empty_thinking": "gets something in place of thoughts that are not there",
    "drop_thinking": "gets no thoughts back",
    "rewrite_ids": "is sent ids of calls in another form",
    "fill_content": "is sent no empty messages",
    "drop_image": "is sent fewer images",
    "repair_schema": "is shown simpler descriptions of tools",
    "rename_limit": "is asked with another limit of the reply",
    "drop_field": "calls tools in its text",
    "compact": "is sent less",
}

Tell = Callable[[LearnedRule], None]


class SpokenDialect:
    """The API variant used for one model, with rules added after the server refuses requests."""

    def __init__(
        self,
        base: Dialect | None = None,
        *,
        provider: str = "",
        address: str = "",
        model: str = "",
        book: DialectBook | None = None,
    ) -> None:
        self._current = base
        self._provider = provider
        self._address = address
        self._model = model
        self._book = book

    @property
    def current(self) -> Dialect:
        """The dialect with all rules known now. Without one for the model, the default dialect."""
        if self._current is None:
            self._current = load(DEFAULT)
        return self._current

    def learn(self, learned: Sequence[tuple[Repair, str]]) -> None:
        """Apply repairs to all further requests. Each comes with the refusal that led to it."""
        for repair, reason in learned:
            if (changed := self.current.apply_change(repair.change)) == self.current:
                continue
            self._current = changed
            if self._book is not None:
                told = LearnedRule(
                    self._provider, self._model, repair.rule, reason[:LONGEST_REASON], dict(repair.change)
                )
                self._book.keep(self._address, told, lasts=repair.lasts)

    def forget_window(self) -> bool:
        """Drop the window that a refusal named, as a newer one is known; return whether there was one."""
        if not self.current.limits.window:
            return False
        self._current = self.current.apply_change({"limits": {"window": 0}})
        if self._book is not None:
            self._book.drop_window(self._provider, self._address, self._model)
        return True

    def recall(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Apply rules learned earlier; unreadable rows are skipped.

        A window is valid for a day: the server's options, or the model behind a gateway, may change, and
        requests limited to the window would never reveal that.
        """
        for row in rows:
            try:
                is_old = time.time() - row.get("at", 0) > WINDOW_LASTS
                self._current = self.current.apply_change(
                    _windowless(row["change"]) if is_old else row["change"]
                )
            except (ValidationError, AttributeError, KeyError, TypeError, ValueError):
                log.warning("a learned rule of %s/%s cannot be applied", self._provider, self._model)


class DialectBook:
    """The dialects of one session. `tell` is called with each learned rule."""

    def __init__(self, home: Path | None, tell: Tell = lambda _: None) -> None:
        self._folder = home / FOLDER if home is not None else None
        self._tell = tell
        self._known: dict[tuple[str, str, str], SpokenDialect] = {}

    def of(self, provider: str, url: str, model: str, *, chosen: str = "", seller: str = "") -> SpokenDialect:
        """Return the dialect of a model. Calls for the same model return the same object.

        Reads files. Raises `ConfigError`.
        """
        address = plain_address(url).rstrip("/").replace(" ", "%20")
        known = self._known.get((provider, address, model))
        if known is None:
            base = choose(provider, url, model, chosen=chosen, seller=seller, own=self._folder)
            known = SpokenDialect(base, provider=provider, address=address, model=model, book=self)
            if self._folder is not None:
                known.recall(read_learned(self._folder).get(_key(provider, address, model), ()))
            self._known[provider, address, model] = known
        return known

    def keep(self, address: str, learned: LearnedRule, *, lasts: bool) -> None:
        """Report a learned rule. With `lasts`, also store it; otherwise it applies to this session only."""
        if lasts and self._folder is not None:
            try:
                with _rewritten(self._folder) as rows:
                    own = rows.setdefault(_key(learned.provider, address, learned.model), [])
                    row = {"rule": learned.rule, "reason": learned.reason, "change": dict(learned.change)}
                    row["at"] = int(time.time())
                    own[:] = [each for each in own if each.get("change") != row["change"]][-MOST_LEARNED:]
                    own.append(row)
            except Exception:
                log.warning("what was learned could not be kept", exc_info=True)
        self._tell(learned)

    def drop_window(self, provider: str, address: str, model: str) -> None:
        """Delete the stored window of this model. Errors are only logged."""
        if self._folder is None:
            return
        try:
            with _rewritten(self._folder) as rows:
                own = rows.pop(key := _key(provider, address, model), [])
                changes = [(row, _windowless(row.get("change") or {})) for row in own]
                if left := [{**row, "change": change} for row, change in changes if change]:
                    rows[key] = left
        except Exception:
            log.warning("a window could not be forgotten", exc_info=True)


def _windowless(change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a change without the window in it."""
    limits = {name: value for name, value in change.get("limits", {}).items() if name != "window"}
    kept = {name: values for name, values in change.items() if name != "limits"}
    return {**kept, "limits": limits} if limits else kept


def read_learned(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the learned rules; empty if the file is missing or unreadable.

    The keys consist of provider, address and model, separated by spaces.
    """
    try:
        data = json.loads((folder / LEARNED).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    rows = {str(key): each for key, each in data.items() if isinstance(each, list)}
    return {key: [row for row in each if isinstance(row, dict)] for key, each in rows.items()}


def forget(home: Path, provider: str) -> int:
    """Delete the learned rules for a provider's models; return their number. Raises `OSError`."""
    if not (home / FOLDER / LEARNED).exists():
        return 0
    with _rewritten(home / FOLDER) as rows:
        gone = [key for key in rows if key.split(" ", 1)[0] == provider]
        return sum(len(rows.pop(key)) for key in gone)


def learned_of(home: Path, provider: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return the learned rules for a provider's models as tuples of address, model and stored row."""
    found: list[tuple[str, str, dict[str, Any]]] = []
    for key, rows in read_learned(home / FOLDER).items():
        name, address, model = (*key.split(" ", 2), "", "")[:3]
        if name == provider:
            found += [(address, model, row) for row in rows]
    return found


def dialect_name(home: Path, provider: str, url: str, *, chosen: str = "", seller: str = "") -> str:
    """Return the name of a provider's dialect before a model is chosen. Raises `ConfigError`."""
    return choose(provider, url, "", chosen=chosen, seller=seller, own=home / FOLDER).name


def _key(provider: str, address: str, model: str) -> str:
    return f"{provider} {address} {model}"


@contextmanager
def _rewritten(folder: Path) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """Yield the learned rules to be changed in place, and store them afterwards.

    A lock keeps other processes from changing them meanwhile.
    """
    private_folder(folder)
    with file_lock(folder / f".{LEARNED}.lock"):
        rows = read_learned(folder)
        yield rows
        text = json.dumps(rows, indent=1, ensure_ascii=False)
        write_atomically(folder / LEARNED, text.encode(), PRIVATE_FILE, replace_any=True, durable=False)
