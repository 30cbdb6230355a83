"""Reports of model servers about their models, and detection of restarts of the servers."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.core.net.listening import NETLINK_SOCK_DIAG, listening
from agent.model.addresses import below, is_azure, is_loopback, list_of_models, root_of
from agent.model.catalog import UNKNOWN, ModelInfo, lookup
from agent.model.detect import fetch_json, names_in

if TYPE_CHECKING:
    from agent.model.providers import Target


SMALLEST = 256
"""The smallest number that is taken for the tokens of a window or a limit."""
LARGEST = 1_000_000_000
_MILLION = 1_000_000

_WINDOWS = (
    ("meta", "n_ctx"),  # llama.cpp: the window in use; `n_ctx_train` is the window of the training
    ("max_model_len",),  # vLLM, SGLang
    ("loaded_context_length",),  # LM Studio
    ("max_input_tokens",),  # LiteLLM
    ("model_info", "max_input_tokens"),
    ("top_provider", "context_length"),  # OpenRouter
    ("context_length",),
    ("context_window",),
)
_OUTPUTS = (
    ("max_output_tokens",),
    ("model_info", "max_output_tokens"),
    ("top_provider", "max_completion_tokens"),
    ("max_completion_tokens",),
)
_PRICES = {
    "input_price": (("pricing", "prompt"), ("model_info", "input_cost_per_token")),
    "output_price": (("pricing", "completion"), ("model_info", "output_cost_per_token")),
    "cached_price": (("pricing", "input_cache_read"), ("model_info", "cache_read_input_token_cost")),
    "written_price": (("pricing", "input_cache_write"), ("model_info", "cache_creation_input_token_cost")),
}
"""Fields that hold prices in US dollars per token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """A server's facts about one model. All fields but `tools` are as in `ModelInfo`; None means unknown."""

    context_window: int | None = None
    max_output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None
    written_price: float | None = None
    images: bool | None = None
    tools: bool | None = None
    """True if the model's template has a place for tools; False if tools would be dropped silently."""

    def __or__(self, other: ServerFacts) -> ServerFacts:
        """Return these facts, with missing ones taken from `other`."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(other, **{name: value for name, value in known.items() if value is not None})

    def complete(self, info: ModelInfo, chosen: ModelInfo) -> ModelInfo:
        """Return `info` with the server's values in it, except where the settings (`chosen`) have values."""
        values = {
            each.name: value
            for each in fields(self)
            if each.name != "tools"
            and (value := getattr(self, each.name)) is not None
            and getattr(chosen, each.name) is None
        }
        return replace(info, **values, told=frozenset(values))


def entry_of(answer: Any, model: str) -> Mapping[str, Any]:
    """Return the entry of a model in a list (`/v1/models`, `/model/info`); empty if it is not listed.

    llama.cpp's server accepts any model name. Its only entry is therefore used for every model.
    """
    listed = answer.get("data") if isinstance(answer, Mapping) else answer
    entries = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    for entry in entries:
        if model in _names(entry):
            return entry
    alone = entries[0] if len(entries) == 1 else {}
    return alone if alone.get("owned_by") == "llamacpp" else {}


def list_without(answer: Any, model: str) -> tuple[str, ...]:
    """Return the names in a list of models (`/v1/models`) if none stands for `model`; empty if one does.

    A `:latest` tag, a folder before the name or a pattern that matches it also counts.
    """
    names = names_in(answer) or ()
    if entry_of(answer, model) or any(
        each == f"{model}:latest" or each.endswith(f"/{model}") or fnmatchcase(model, each) for each in names
    ):
        return ()
    return names


def _names(entry: Mapping[str, Any]) -> Iterator[Any]:
    yield from (entry.get(name) for name in ("id", "model_name", "name"))
    if isinstance(aliases := entry.get("aliases"), list):
        yield from aliases


def facts_of(entry: Mapping[str, Any]) -> ServerFacts:
    """Return the facts in the entry of a model in a list."""
    prices = {name: _price(entry, paths) for name, paths in _PRICES.items()}
    if not prices["input_price"] and not prices["output_price"]:
        # Gateways report 0 for unknown values.
        prices = dict.fromkeys(prices)
    architecture, parameters = entry.get("architecture"), entry.get("supported_parameters")
    reads = architecture.get("input_modalities") if isinstance(architecture, Mapping) else None
    return ServerFacts(
        context_window=_tokens(entry, _WINDOWS),
        max_output=_tokens(entry, _OUTPUTS),
        images="image" in reads if isinstance(reads, list) and reads else None,
        tools="tools" in parameters if isinstance(parameters, list) and parameters else None,
        **prices,
    )


def facts_of_props(props: Any) -> ServerFacts:
    """Return the facts in `/props` of llama.cpp's server: its window, its template, and image support."""
    if not isinstance(props, Mapping):
        return ServerFacts()
    able = [_value(props, ("chat_template_caps", name)) for name in ("supports_tools", "supports_tool_calls")]
    sees = _value(props, ("modalities", "vision"))
    return ServerFacts(
        context_window=_tokens(props, (("default_generation_settings", "n_ctx"), ("n_ctx",))),
        images=sees if isinstance(sees, bool) else None,
        tools=False if False in able else True if True in able else None,
    )


def is_llamacpp(models: Any) -> bool:
    """Return whether a list of models comes from llama.cpp's server; if so, `/props` gives more facts."""
    return any(
        entry.get("owned_by") == "llamacpp" or "n_ctx_train" in (entry.get("meta") or {})
        for entry in _entries(models)
    )


def is_litellm(models: Any) -> bool:
    """Return whether a list of models may come from LiteLLM, in which case `/model/info` gives more facts."""
    return any("max_input_tokens" in entry or "max_output_tokens" in entry for entry in _entries(models))


def _entries(answer: Any) -> Iterable[Mapping[str, Any]]:
    listed = answer.get("data") if isinstance(answer, Mapping) else None
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


def _value(entry: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = entry
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _tokens(entry: Mapping[str, Any], paths: Iterable[tuple[str, ...]]) -> int | None:
    for path in paths:
        value = _value(entry, path)
        if isinstance(value, int | float) and not isinstance(value, bool) and SMALLEST <= value <= LARGEST:
            return int(value)
    return None


def _price(entry: Mapping[str, Any], paths: Iterable[tuple[str, ...]]) -> float | None:
    """Return the price in US dollars per million tokens that an entry has at one of `paths`, or None."""
    for path in paths:
        value = _value(entry, path)
        try:
            price = float(value) * _MILLION
        except (TypeError, ValueError):
            continue
        if math.isfinite(price) and price >= 0:
            return round(price, 9)
    return None


log = logging.getLogger(__name__)

PATIENCE = 1.5
"""Seconds that a server has for all requests together."""


@dataclass(slots=True)
class _Said:
    """A server's answers to the last requests."""

    models: Any = None
    props: Any = None
    prices: Any = None
    listener: frozenset[int] = frozenset()
    """Ids of the sockets that listened at its port then, if the system reports them."""


@dataclass(slots=True)
class ServerWatch:
    """Requests facts from the server at one address. Callers set `stale` if it may have been restarted."""

    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    stale: bool = True
    _said: _Said = field(default_factory=_Said)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def facts(self, model: str) -> ServerFacts:
        """Return the server's facts about a model. Requests are sent once, and again if `stale` is set."""
        async with self._asking:
            if self.stale:
                self._said, self.stale = await self._ask()
        entry, priced = entry_of(self._said.models, model), entry_of(self._said.prices, model)
        listed, props = facts_of(entry), facts_of_props(self._said.props)
        windows = [each.context_window for each in (listed, props) if each.context_window]
        # One may be the total for concurrent requests, the other the share of each.
        smaller = ServerFacts(context_window=min(windows, default=None))
        return smaller | listed | props | facts_of(priced) | _behind(priced)

    def list_without(self, model: str) -> tuple[str, ...]:
        """Return the models that the server last listed, if `model` is not among them; otherwise empty."""
        return list_without(self._said.models, model)

    async def lists(self, *models: str) -> bool:
        """Return whether the server lists all of these names, each as a different model."""
        await self.facts(models[0])
        entries = [entry_of(self._said.models, model) for model in models]
        return all(entries) and len({id(entry) for entry in entries}) == len(models)

    @property
    def counts_tokens(self) -> bool:
        """True if the server is known to count the tokens of a request: llama.cpp's does."""
        return is_llamacpp(self._said.models)

    async def was_restarted(self) -> bool:
        """Return whether the server may have been restarted since the last requests; False if unknown."""
        if not self.stale and self._said.listener:
            self.stale = listeners(self.base_url) != self._said.listener
        return self.stale

    async def _ask(self) -> tuple[_Said, bool]:
        """Return the server's answers, and whether the requests must be sent again later."""
        said = _Said()
        try:
            async with asyncio.timeout(PATIENCE):
                said.listener = listeners(self.base_url)
                said.models = await fetch_json(list_of_models(self.base_url), self.headers)
                root = root_of(self.base_url)
                if is_llamacpp(said.models):
                    said.props = await self._optional(below(root, "props"))
                elif is_litellm(said.models):
                    said.prices = await self._optional(below(root, "model/info"))
        except (OSError, ValueError, EOFError, TimeoutError) as error:
            log.info("%s did not list its models: %s", urlsplit(self.base_url).netloc, error)
            # A server that answers, but not to this, will not do so later either.
            return said, not isinstance(error, ValueError)
        return said, False

    async def _optional(self, url: str) -> Any:
        try:
            return await fetch_json(url, self.headers)
        except (OSError, ValueError, EOFError):
            return None


class ServerWatches:
    """The servers of one session; each is queried once for all its models."""

    def __init__(self) -> None:
        self._watches: dict[str, ServerWatch] = {}
        self._plain: dict[str, Target] = {}
        """Targets without any facts from their servers, by label."""

    def of(self, target: Target) -> ServerWatch | None:
        """Return the watch of a target's server; None if the facts about the model are known without it."""
        if target.kind != "chat" or not (target.is_server or target.info == UNKNOWN):
            return None
        if target.base_url not in self._watches:
            self._watches[target.base_url] = ServerWatch(target.base_url, target.request_headers())
        return self._watches[target.base_url]

    def watch_target(self, target: Target) -> WatchedModel | None:
        """Return a model together with the watch of its server; None if the server is not watched."""
        watch = self.of(target) if target.is_server else None
        return None if watch is None else WatchedModel(self, watch, target)

    def with_list(self, target: Target) -> Target:
        """Return a target with the server's last list of models added, if the model is not on it."""
        watch = self.of(target)
        # Azure lists the models it has, and is asked for deployments.
        if watch is None or target.chosen != UNKNOWN or is_azure(target.base_url):
            return target
        return replace(target, listed=watch.list_without(target.model))

    async def inform(self, target: Target) -> Target:
        """Return a target with the server's facts about the model added, except where the settings have
        values. If the model's template has no tools, calls are sent as text.
        """
        watch = self.of(target)
        if watch is None:
            return target
        target = self._plain.setdefault(target.label, target)
        facts = await watch.facts(target.model)
        info = facts.complete(target.info, target.chosen)
        target = self.with_list(target)
        if facts.tools is False and not target.mode_chosen:
            return replace(target, info=info, tool_mode="text", untooled=True)
        return replace(target, info=info)


@dataclass(slots=True)
class WatchedModel:
    """One model of a watched server, with the last known facts."""

    _watches: ServerWatches
    _watch: ServerWatch
    target: Target

    def doubt(self) -> None:
        """Record a failure that may come from a restart of the server."""
        self._watch.stale = True

    async def news(self) -> Target | None:
        """Return the model with the server's new facts if they changed with a restart; otherwise None."""
        if not await self._watch.was_restarted():
            return None
        before, self.target = self.target, await self._watches.inform(self.target)
        return None if self.target == before else self.target

    async def other(self, model: str) -> Target | None:
        """Return another model on the server's list, which may have answered; None if it is not listed."""
        if not await self._watch.lists(self.target.model, model):
            return None
        alone = replace(self.target, model=model, info=UNKNOWN, chosen=UNKNOWN, untooled=False, listed=())
        return await self._watches.inform(alone)

    @property
    def may_drop_tools(self) -> bool:
        """True if the server may drop tools silently, so that its token counts must be checked.

        That is assumed for addresses without TLS, unless the settings choose the tool mode.
        """
        return self.target.base_url.startswith("http:") and not self.target.mode_chosen

    @property
    def counts_tokens(self) -> bool:
        """True if the server is known to count the tokens of a request."""
        return self._watch.counts_tokens


def _behind(entry: Mapping[str, Any]) -> ServerFacts:
    """Return the catalog's facts about the model that a gateway names as its backend."""
    parameters = entry.get("litellm_params")
    name = parameters.get("model") if isinstance(parameters, Mapping) else None
    info = lookup(name, name.partition("/")[0]) if isinstance(name, str) else None
    if info is None:
        return ServerFacts()
    return ServerFacts(
        context_window=info.context_window,
        max_output=info.max_output,
        input_price=info.input_price,
        output_price=info.output_price,
        cached_price=info.cached_price,
        written_price=info.written_price,
    )


def listeners(url: str) -> frozenset[int]:
    """Return the ids of the listening sockets at the port of a local address; other ids mean a restart.

    Returns an empty set for other machines, and if the system does not report them.
    """
    if not is_loopback(url):
        return frozenset()
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as watch:
            families = (socket.AF_INET, socket.AF_INET6)
            found = (each for family in families for each in listening(watch, family))
            return frozenset(each.inode for each in found if each.port == port)
    except (AttributeError, OSError):
        return frozenset()
