"""Facts a model server tells of its models, in the fields that real ones use.

Gateways and local servers are no providers that a table could hold: what they take depends on the
model behind them or on how they were started. Everything here is pure; unknown is None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from agent.model.catalog import ModelInfo

SMALLEST = 256
"""Tokens below which a number is not taken for a window."""
LARGEST = 1_000_000_000
_MILLION = 1_000_000

_WINDOWS = (
    ("meta", "n_ctx"),  # llama.cpp: what it runs with; `n_ctx_train` is what the model was made for
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
"""Fields that hold US dollars per token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What a server says of one model; the fields mean what they mean in `ModelInfo`."""

    context_window: int | None = None
    max_output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None
    written_price: float | None = None
    images: bool | None = None
    tools: bool | None = None
    """Whether what the model reads has a place for tools; False: they would be dropped in silence."""

    def __or__(self, other: ServerFacts) -> ServerFacts:
        """These, and where they are silent the others."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(other, **{name: value for name, value in known.items() if value is not None})

    def completed(self, info: ModelInfo, chosen: ModelInfo) -> ModelInfo:
        """`info` with what the server says in its place, but for what the settings say (`chosen`)."""
        values = {
            each.name: value
            for each in fields(self)
            if each.name != "tools"
            and (value := getattr(self, each.name)) is not None
            and getattr(chosen, each.name) is None
        }
        return replace(info, **values, told=frozenset(values))


def entry_of(answer: Any, model: str) -> Mapping[str, Any]:
    """What a list of models (`/v1/models`, `/model/info`) has of one; empty if it is not on the list.

    A server with one model that answers to every name, as llama.cpp's, means that one.
    """
    listed = answer.get("data") if isinstance(answer, Mapping) else answer
    entries = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    for entry in entries:
        if model in _names(entry):
            return entry
    alone = entries[0] if len(entries) == 1 else {}
    return alone if alone.get("owned_by") == "llamacpp" else {}


def _names(entry: Mapping[str, Any]) -> Iterator[Any]:
    yield from (entry.get(name) for name in ("id", "model_name", "name"))
    if isinstance(aliases := entry.get("aliases"), list):
        yield from aliases


def facts_of(entry: Mapping[str, Any]) -> ServerFacts:
    """What the entry of a model says."""
    prices = {name: _price(entry, paths) for name, paths in _PRICES.items()}
    if not prices["input_price"] and not prices["output_price"]:
        # Gateways say 0 where they know nothing.
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
    """What `/props` of llama.cpp's server says: its window, its template, and whether it sees."""
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
    """Whether a list of models comes from llama.cpp's server, so that `/props` says more."""
    return any(
        entry.get("owned_by") == "llamacpp" or "n_ctx_train" in (entry.get("meta") or {})
        for entry in _entries(models)
    )


def is_litellm(models: Any) -> bool:
    """Whether a list of models may come from LiteLLM, so that `/model/info` says more."""
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
    """US dollars per million tokens."""
    for path in paths:
        value = _value(entry, path)
        try:
            price = float(value) * _MILLION
        except (TypeError, ValueError):
            continue
        if math.isfinite(price) and price >= 0:
            return round(price, 9)
    return None
