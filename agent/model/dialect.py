"""Rules about what one provider, server or model accepts, read from the tables in `agent/model/dialects`.

A table is one YAML file. A person's table in the folder `dialects` of the home overrides the built-in one of
that name. Values that a file omits come from `default.yaml`. A rule learned from a refusal is a change in the
same form, applied by `apply_change`. So a request depends only on the conversation and one `Dialect`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from agent.errors import ConfigError

log = logging.getLogger(__name__)

BUILT_IN = Path(__file__).with_name("dialects")
FOLDER = "dialects"
"""The folder of a person's own tables, in the home."""
DEFAULT = "default"
LARGEST_FILE = 256 * 1024
"""Bytes of a table that are read."""

RepairName = Literal[
    "merge_roles",
    "close_results",
    "return_thinking",
    "empty_thinking",
    "drop_thinking",
    "rewrite_ids",
    "fill_content",
    "drop_image",
    "repair_schema",
    "drop_tool",
    "rename_limit",
    "drop_field",
    "compact",
]


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


Texts = Annotated[
    tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)
]
"""A list of texts; one alone is a list as well."""


class Match(_Rules):
    """The providers, hosts and models that a dialect is for. All are patterns with `*`."""

    providers: Texts = ()
    hosts: Texts = ()
    models: Texts = ()
    """Used if neither provider nor host is known."""


class CallRules(_Rules):
    id: str = "any"
    """Form of ids: `any`, `plain`, `nine-alphanumeric`, or a pattern such as `call_[a-z0-9]{24}`."""
    content: Literal["null", "empty", "filled"] = "null"
    """Placeholder for the text of a message that only calls."""
    text: bool = True
    """True if a message may have a text besides calls."""
    named: bool = False
    """True if a result names its tool."""


class RoleRules(_Rules):
    alternate: bool = False
    """True if consecutive messages of one side are joined."""
    close_results: bool = False
    """True if a short answer is inserted between a result and the next message of the person."""
    single_calls: bool = False
    """True if each call is in a separate message, followed by its result."""
    system: bool = True
    """True if there is a system role; otherwise the system prompt begins the first message."""


class ThinkingModel(_Rules):
    """The thinking rules of models whose name the expression `match` finds; of several matches, the first one
    counts.
    """

    match: str = ""
    ways: tuple[str, ...] = ("enabled", "adaptive")
    """Ways of asking for it in the format `anthropic`, the likeliest first."""
    effort: bool = True
    """True if an effort goes with the way `adaptive`."""
    display: bool = False
    """True if it is asked to show its thoughts, which it otherwise hides."""
    unasked: bool = False
    """True if the model thinks although the request does not ask for it."""
    always: bool = False
    """True if thinking cannot be switched off."""
    binds: bool = False
    """True if a thought is valid only after exactly what the model had read before it."""
    reasons: bool = True
    """True if it takes the fields about reasoning in the format `responses`."""
    lowest: str = "low"
    """The effort used there for `off`."""


class ThinkingRules(_Rules):
    key: str = ""
    """Field of an assistant message for thoughts sent back; empty: none."""
    sent_back: Literal["never", "own", "always"] = Field("own", alias="return")
    """`own`: with calls, to the model that had them; `always`: with each of its messages; `never`: also
    nothing that was signed."""
    foreign: Literal["drop", "empty", "placeholder"] = "drop"
    """Content of the field for thoughts of another model, or for none."""
    models: tuple[ThinkingModel, ...] = ()


class ToolRules(_Rules):
    form: Literal["any", "sound", "plain"] = Field("sound", alias="schema")
    """`sound`: only contradictions are fixed; `plain`: only the simplest keywords."""
    longest: int = 0
    """Characters of a description at most; 0: any number."""
    mode: Literal["native", "schema", "text"] | None = None
    """The required form of calls; None: as in the settings."""
    without: tuple[str, ...] = ()
    """Tools that are left out, as `name:digest` of what was refused."""


class ImageRules(_Rules):
    taken: bool = True
    count: int = 0
    """Images of one request at most; 0: any number."""
    bytes: int = 0
    """Bytes of one image at most; 0: any size."""
    without: tuple[str, ...] = ()
    """SHA-256 of images that are left out."""


class LimitRules(_Rules):
    output_name: str = ""
    """Field of the output limit in the format `chat`; empty: `max_tokens`, `-`: none."""
    output_max: int = 0
    """Tokens of a reply at most; 0: unknown."""
    output_needed: bool = False
    """True if a request has to name a limit of the reply."""
    window: int = 0
    """Tokens of the window that a refusal named; 0: unknown."""
    window_in_refusal: Texts = ()
    """Expressions with one group that holds the tokens of the window."""
    other_units: str = ""
    """Expression for refusals whose numbers mean something else."""
    without: tuple[str, ...] = ()
    """Fields of the body that are not sent."""


class RefusalRule(_Rules):
    match: str
    repair: RepairName
    unless: str = ""
    """Expression for sentences that mean something else."""
    status: tuple[int, ...] = ()
    """Statuses it applies to; empty: those about the form of a request."""
    format: str = ""
    """Wire format it applies to; empty: any."""
    field: str = ""
    """The field that `drop_field` omits; empty: the field that the sentence names."""
    change: dict[str, Any] = {}
    """The change of the dialect; if empty, the usual change of the repair."""


class Dialect(_Rules):
    """The rules for one model. The fields have the names used in the tables."""

    name: str = DEFAULT
    match: Match = Match()
    calls: CallRules = CallRules()
    roles: RoleRules = RoleRules()
    thinking: ThinkingRules = ThinkingRules.model_construct()
    tools: ToolRules = ToolRules.model_construct()
    images: ImageRules = ImageRules()
    limits: LimitRules = LimitRules()
    refusals: tuple[RefusalRule, ...] = ()
    source: Texts = ()
    examples: tuple[dict[str, Any], ...] = ()

    def apply_change(self, change: Mapping[str, Any]) -> Self:
        """Return the dialect with a change applied. Lists of omitted items are extended. Raises
        `ValidationError`.
        """
        sections: dict[str, Any] = {}
        for section, values in change.items():
            rules: _Rules = getattr(self, section)
            kept = rules.model_dump(by_alias=True)
            for name, value in values.items():
                grows = name == "without"
                kept[name] = tuple(dict.fromkeys((*kept[name], *value))) if grows else value
            sections[section] = type(rules).model_validate(kept)
        return self.model_copy(update=sections)

    def thinks(self, model: str) -> ThinkingModel:
        """Return the thinking rules of a model by its name. For an unknown model, all forms of such a request
        are tried in turn.
        """
        name = model.lower().rpartition("/")[2].replace(".", "-")
        found = next((each for each in self.thinking.models if re.search(each.match, name)), None)
        return found or ThinkingModel(effort=False)

    def lacks(self, field: str) -> bool:
        """Return whether a field of the body must not be sent."""
        return field in self.limits.without

    def framed_as(self, other: Dialect) -> bool:
        """Return whether messages and tools have the same form in both dialects."""
        return (self.calls, self.thinking, self.tools, self.images) == (
            other.calls,
            other.thinking,
            other.tools,
            other.images,
        )

    def deviation(self) -> dict[str, Any]:
        """Return the differences to the dialect of a model that accepts everything, as data for
        `apply_change`.
        """
        parts = ("calls", "roles", "thinking", "tools", "images", "limits")
        told = {name: getattr(self, name).model_dump(by_alias=True, exclude_defaults=True) for name in parts}
        told["limits"].pop("window_in_refusal", None)
        told["limits"].pop("other_units", None)
        told["thinking"].pop("models", None)
        return {name: values for name, values in told.items() if values}


ANY = Dialect()
"""The dialect of a model that accepts everything: the default without a table."""


def names(own: Path | None = None) -> list[str]:
    """Return the names of all dialects, built-in ones and those in the folder `own`."""
    found = {file.stem for folder in (BUILT_IN, own) if folder is not None for file in folder.glob("*.yaml")}
    return sorted(found)


def load(name: str, own: Path | None = None) -> Dialect:
    """Return the dialect of this name. Raises `ConfigError` if it is missing or unreadable."""
    return _laid_over_default(_file(name, own), own)


def mistakes(own: Path) -> list[str]:
    """Return a sentence about each table in the folder `own` that cannot be used."""
    found: list[str] = []
    for file in sorted(own.glob("*.yaml")):
        try:
            _laid_over_default(file, own)
        except ConfigError as error:
            found.append(str(error))
    return found


def choose(
    provider: str, url: str, model: str, *, chosen: str = "", seller: str = "", own: Path | None = None
) -> Dialect:
    """Return the dialect of a model: the chosen one, else the one for its provider, its host or its name.

    `seller` is the built-in provider at the address. Raises `ConfigError`.
    """
    if chosen:
        return load(chosen, own)
    host = (urlsplit(url).hostname or "").lower()
    tables = list(_matches(own))
    for values, wanted in (("hosts", host), ("providers", provider.lower()), ("providers", seller)):
        for name, match in tables:
            if wanted and _fits(wanted, getattr(match, values)):
                return load(name, own)
    plain = model.lower().rpartition("/")[2]
    for name, match in tables:
        if _fits(plain, match.models):
            return load(name, own)
    return load(DEFAULT, own)


def _fits(name: str, patterns: Iterable[str]) -> bool:
    # Most patterns are ruled out without compiling them.
    return any(
        fnmatchcase(name, pattern)
        for pattern in patterns
        if any(sign in pattern for sign in "?[") or all(part in name for part in pattern.split("*"))
    )


def _matches(own: Path | None) -> Iterator[tuple[str, Match]]:
    """Yield names and matches of all tables, a person's own first. A person's broken tables are skipped."""
    mine = {file.stem for file in own.glob("*.yaml")} if own is not None else set[str]()
    for name in sorted(mine):
        try:
            yield name, load(name, own).match
        except ConfigError:
            log.warning("the dialect %s cannot be read", name)
    yield from ((name, match) for name, match in _built_in_matches() if name not in mine)


_MATCH_BLOCK = re.compile(r"^match:.*\n(?:[ \t#].*\n)*", re.MULTILINE)


@cache
def _built_in_matches() -> tuple[tuple[str, Match], ...]:
    """Return the name and the match of each table. The other keys, most of each file, are not parsed."""
    from textwrap import indent

    from tools.kit.yaml_text import YamlForm, load_yaml

    blocks = ((file.stem, _MATCH_BLOCK.search(file.read_text("utf-8"))) for file in BUILT_IN.glob("*.yaml"))
    text = "".join(f"{name}:\n{indent(block[0], ' ')}" for name, block in sorted(blocks) if block)
    data = load_yaml(text, YamlForm("a list of dialects"))
    return tuple((name, Match.model_construct(**each["match"])) for name, each in data.items())


def _file(name: str, own: Path | None) -> Path:
    plain = name.strip().lower().replace(".", "").removesuffix("-compatible")
    for folder in (own, BUILT_IN):
        for called in (name.strip(), plain):
            if folder is not None and called.isprintable() and "/" not in called:
                file = folder / f"{called}.yaml"
                if file.is_file():
                    return file
    raise ConfigError(f"There is no dialect {name!r}; known are {', '.join(names(own))}.")


def _laid_over_default(file: Path, own: Path | None) -> Dialect:
    if file.parent == BUILT_IN:
        return _built_in(file.stem)
    base = _built_in(DEFAULT)
    try:
        return _read(file, base)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        why = "there is no such key" if first["type"] == "extra_forbidden" else first["msg"]
        raise ConfigError(
            f"The dialect in {file} is not used: it has a mistake at {where!r}: {why}."
        ) from None


@cache
def _built_in(name: str) -> Dialect:
    base = ANY if name == DEFAULT else _built_in(DEFAULT)
    return _read(BUILT_IN / f"{name}.yaml", base)


def _read(file: Path, base: Dialect) -> Dialect:
    """Return the dialect that results from applying the table in `file` to `base`.

    Raises `ValidationError` or `ConfigError`.
    """
    data = _parse(file)
    told = Dialect.model_validate({**data, "name": file.stem})
    parts = {name: data[name] for name in ("calls", "roles", "thinking", "tools", "images") if data.get(name)}
    limits = dict(data.get("limits") or {})
    if limits.get("window_in_refusal"):
        limits["window_in_refusal"] = (*told.limits.window_in_refusal, *base.limits.window_in_refusal)
    if limits:
        parts["limits"] = limits
    laid = base.apply_change(parts)
    return laid.model_copy(
        update={
            "name": file.stem,
            "match": told.match,
            "refusals": (*told.refusals, *base.refusals),
            "source": told.source,
            "examples": told.examples,
        }
    )


def _parse(file: Path) -> dict[str, Any]:
    from tools.kit.yaml_text import YamlForm, load_yaml

    try:
        text = file.read_bytes()[:LARGEST_FILE].decode("utf-8")
        data = load_yaml(text, YamlForm("a dialect"))
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"The dialect in {file} cannot be read ({reason}); correct the file.") from None
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ConfigError(f"The dialect in {file} is not a table of rules; docs/models.md shows one.")
    return data
