"""Rules about what one provider, server or model accepts, read from the tables in `agent/model/dialects`.

A table is one YAML file. A user's table in the folder `dialects` of the Hermes home overrides the built-in
one of that name. Values that a file omits come from `default.yaml`. A rule learned from a refusal is a change
in the same form, applied by `apply_change`. So a request depends only on the conversation and one `Dialect`.
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
"""The folder in the Hermes home for the user's own tables."""
DEFAULT = "default"
LARGEST_FILE = 256 * 1024
"""The maximum number of bytes of a table that are read."""

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
"""A list of texts; a single text becomes a list."""


class Match(_Rules):
    """The providers, hosts and models to which a dialect applies. All are patterns with `*`."""

    providers: Texts = ()
    hosts: Texts = ()
    models: Texts = ()
    """Names of models, used if neither provider nor host matches a table."""


class CallRules(_Rules):
    id: str = "any"
    """The form of ids: `any`, `plain`, `nine-alphanumeric`, or a pattern such as `call_[a-z0-9]{24}`."""
    content: Literal["null", "empty", "filled"] = "null"
    """The placeholder for the text of a message that consists only of calls."""
    text: bool = True
    """True if a message may contain text besides calls."""
    named: bool = False
    """True if a result must name its tool."""


class RoleRules(_Rules):
    alternate: bool = False
    """True if consecutive messages of one role must be joined."""
    close_results: bool = False
    """True if a short answer must be inserted between a result and the next user message."""
    single_calls: bool = False
    """True if each call must be in a separate message, followed by its result."""
    system: bool = True
    """True if there is a system role; otherwise the system prompt begins the first message."""


class ThinkingModel(_Rules):
    """The thinking rules for models whose name matches the expression `match`; the first match applies."""

    match: str = ""
    ways: tuple[str, ...] = ("enabled", "adaptive")
    """Forms of requesting thinking in the format `anthropic`, the likeliest first."""
    effort: bool = True
    """True if an effort is sent with the form `adaptive`."""
    display: bool = False
    """True if the request must ask for the thoughts to be shown, because the model hides them otherwise."""
    unasked: bool = False
    """True if the model thinks even if the request does not ask for it."""
    always: bool = False
    """True if thinking cannot be switched off."""
    binds: bool = False
    """True if a thought is valid only after exactly the content that the model had read before it."""
    reasons: bool = True
    """True if the model accepts the fields about reasoning in the format `responses`."""
    lowest: str = "low"
    """The lowest effort in the format `responses`, used for `off`."""


class ThinkingRules(_Rules):
    key: str = ""
    """The field of an assistant message for thoughts that are sent back; empty if there is none."""
    sent_back: Literal["never", "own", "always"] = Field("own", alias="return")
    """`own`: with calls, to the model that wrote them; `always`: with each of its messages; `never`: not even
    signed thoughts.
    """
    foreign: Literal["drop", "empty", "placeholder"] = "drop"
    """The content of the field if the thoughts are another model's, or missing."""
    models: tuple[ThinkingModel, ...] = ()


class ToolRules(_Rules):
    form: Literal["any", "sound", "plain"] = Field("sound", alias="schema")
    """`sound`: only contradictions in schemas are fixed; `plain`: only the simplest keywords are kept."""
    longest: int = 0
    """The maximum number of characters of a description; 0 for no limit."""
    mode: Literal["native", "schema", "text"] | None = None
    """The required form of calls; None for the form that the settings choose."""
    without: tuple[str, ...] = ()
    """Tools that are left out, as `name:digest` of the refused definition."""


class ImageRules(_Rules):
    taken: bool = True
    count: int = 0
    """The maximum number of images in one request; 0 for no limit."""
    bytes: int = 0
    """The maximum size of one image in bytes; 0 for no limit."""
    without: tuple[str, ...] = ()
    """SHA-256 of images that are left out."""


class LimitRules(_Rules):
    output_name: str = ""
    """The field for the output limit in the format `chat`; empty for `max_tokens`, `-` for none."""
    output_max: int = 0
    """The maximum number of tokens in a reply; 0 if unknown."""
    output_needed: bool = False
    """True if a request must contain an output limit."""
    window: int = 0
    """The context window in tokens that a refusal named; 0 if unknown."""
    window_in_refusal: Texts = ()
    """Expressions for refusals with one group, which matches the tokens of the window."""
    other_units: str = ""
    """An expression for refusals whose numbers are not tokens of the window."""
    without: tuple[str, ...] = ()
    """Fields of the request body that are not sent."""


class RefusalRule(_Rules):
    match: str
    repair: RepairName
    unless: str = ""
    """An expression for refusals to which the rule does not apply."""
    status: tuple[int, ...] = ()
    """Statuses to which it applies; empty for those about the form of a request."""
    format: str = ""
    """The wire format to which it applies; empty for any."""
    field: str = ""
    """The field that `drop_field` omits; empty for the field that the refusal names."""
    change: dict[str, Any] = {}
    """The change to the dialect; empty for the usual change of the repair."""


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
        """Return the dialect with a change applied. Lists of omitted items (`without`) are extended. Raises
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
        """Return the thinking rules for a model, given by its name. For an unknown model, they allow all
        forms of a request, without an effort.
        """
        name = model.lower().rpartition("/")[2].replace(".", "-")
        found = next((each for each in self.thinking.models if re.search(each.match, name)), None)
        return found or ThinkingModel(effort=False)

    def lacks(self, field: str) -> bool:
        """Return whether a field of the request body must not be sent."""
        return field in self.limits.without

    def framed_as(self, other: Dialect) -> bool:
        """Return whether messages and tools have the same form in both dialects, apart from their order."""
        return (self.calls, self.thinking, self.tools, self.images) == (
            other.calls,
            other.thinking,
            other.tools,
            other.images,
        )

    def deviation(self) -> dict[str, Any]:
        """Return the differences from a dialect that accepts everything, as data for `apply_change`."""
        parts = ("calls", "roles", "thinking", "tools", "images", "limits")
        told = {name: getattr(self, name).model_dump(by_alias=True, exclude_defaults=True) for name in parts}
        told["limits"].pop("window_in_refusal", None)
        told["limits"].pop("other_units", None)
        told["thinking"].pop("models", None)
        return {name: values for name, values in told.items() if values}


ANY = Dialect()
"""A dialect that accepts everything: the default without a table."""


def names(own: Path | None = None) -> list[str]:
    """Return the names of all dialects: built-in ones and, if given, those in the folder `own`."""
    found = {file.stem for folder in (BUILT_IN, own) if folder is not None for file in folder.glob("*.yaml")}
    return sorted(found)


def load(name: str, own: Path | None = None) -> Dialect:
    """Return the dialect with this name. Raises `ConfigError` if it is missing or unreadable."""
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
    """Return the dialect of a model: the chosen one, or else the one for its host, its provider or its name.

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
    """Yield names and matches of all tables, the user's own first. Broken tables of the user are skipped."""
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
    """Return the name and the match of each built-in table. The rest of each file is not parsed."""
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
