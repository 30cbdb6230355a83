"""Offline facts about models: context windows, limits, prices. An unknown fact is None, never zero.

The table (`catalog.json`) holds only well-known families. Prices are US dollars per million tokens as
published by the provider (as of July 2026). They apply only to models bought from it. Prices that depend on
the size of the request are left out. `providers.*.models` in config.yaml overrides everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from agent.core.config.schema import ModelInfoSettings as ModelSettings
    from agent.model.protocol import ToolMode


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """The known facts about one model. `providers.*.models` in the settings has most of the same fields."""

    context_window: int | None = None
    """The maximum number of tokens in a request and its reply together."""
    max_output: int | None = None
    """The maximum number of tokens in one reply."""
    input_price: float | None = None
    """US dollars per million tokens, like the other prices."""
    output_price: float | None = None
    cached_price: float | None = None
    """The price of input read from the prompt cache."""
    written_price: float | None = None
    """The price of input written to the prompt cache; None if it costs as much as other input."""
    format: str | None = None
    """The name of the wire format; None for the provider's own."""
    tool_mode: ToolMode | None = None
    images: bool | None = None
    """True if the model reads images; None if that is unknown, so that they are sent."""
    told: frozenset[str] = frozenset()
    """Names of those fields above that the server itself reported."""

    def overridden(self, settings: ModelSettings | None) -> ModelInfo:
        """Return a copy in which values from the settings replace the known ones."""
        if settings is None:
            return self
        values = {field.name: getattr(settings, field.name, None) for field in fields(self)}
        return replace(self, **{name: value for name, value in values.items() if value is not None})


_FILE = Path(__file__).with_name("catalog.json")

UNKNOWN = ModelInfo()

FREE = ModelInfo(input_price=0.0, output_price=0.0, cached_price=0.0, images=False)
"""The facts about a model that runs inside Hermes."""

_DATE = lazy_pattern(r"[-@](?:20\d{2}-?(?:0[1-9]|1[0-2])-?[0-3]\d|latest|preview)$")


def lookup(model: str, provider: str = "") -> ModelInfo | None:
    """Return the table's facts about `model`; None if the model is unknown.

    Prices are included only if `provider` is the one that publishes them.
    """
    name, variant = normalise(model)
    row = next((row for row in _table() if any(fnmatchcase(name, pattern) for pattern in row["match"])), None)
    if row is None:
        return None
    sold = provider in row.get("price_at", ()) and not variant
    prices = (*(row["price"] if sold else ()), None, None, None, None)
    return ModelInfo(
        context_window=row.get("context_window"),
        max_output=row.get("max_output"),
        input_price=prices[0],
        output_price=prices[1],
        cached_price=prices[2],
        written_price=prices[3],
        images=row.get("images"),
    )


def normalise(model: str) -> tuple[str, str]:
    """Return a model's name in a common spelling, without vendor and date, and its variant such as `free`, or
    an empty text.
    """
    name, _, variant = model.strip().lower().rsplit("/", 1)[-1].partition(":")
    name = name.replace(".", "-").replace("_", "-")
    while dated := _DATE.search(name):
        name = name[: dated.start()]
    return name, variant


@cache
def _table() -> tuple[Mapping[str, Any], ...]:
    return tuple(json.loads(_FILE.read_text(encoding="utf-8"))["models"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider's address and wire format, and the variable that holds its key; empty if it needs no key."""

    base_url: str
    key_env: str = ""
    format: str = "chat"
    resells: bool = False
    """True if it offers models of many makers, named `maker/model`."""
    key_path: str = "models"
    """A path below the address that answers only if the key is valid, at no cost."""
    families: tuple[str, ...] = ()
    """Beginnings of the names of the models that it makes."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        format="responses",
        families=("gpt-", "chatgpt-", "o1", "o3", "o4", "codex-"),
    ),
    "openrouter": Provider(
        base_url="https://openrouter.ai/api/v1",
        key_env="OPENROUTER_API_KEY",
        resells=True,
        key_path="key",  # any key may list the models
    ),
    "anthropic": Provider(
        base_url="https://api.anthropic.com/v1",
        key_env="ANTHROPIC_API_KEY",
        format="anthropic",
        families=("claude-",),
    ),
    "gemini": Provider(
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_env="GEMINI_API_KEY",
        families=("gemini-",),
    ),
    "deepseek": Provider(
        base_url="https://api.deepseek.com/v1", key_env="DEEPSEEK_API_KEY", families=("deepseek-",)
    ),
    "mistral": Provider(
        base_url="https://api.mistral.ai/v1",
        key_env="MISTRAL_API_KEY",
        families=("mistral-", "codestral-", "devstral-", "magistral-", "ministral-"),
    ),
    "xai": Provider(base_url="https://api.x.ai/v1", key_env="XAI_API_KEY", families=("grok-",)),
    "groq": Provider(base_url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY", resells=True),
    "together": Provider(base_url="https://api.together.xyz/v1", key_env="TOGETHER_API_KEY", resells=True),
    "moonshot": Provider(
        base_url="https://api.moonshot.ai/v1", key_env="MOONSHOT_API_KEY", families=("kimi-", "moonshot-")
    ),
    "zhipu": Provider(base_url="https://api.z.ai/api/paas/v4", key_env="ZAI_API_KEY", families=("glm-",)),
    "dashscope": Provider(
        base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        key_env="DASHSCOPE_API_KEY",
        families=("qwen-", "qwen3-", "qwq-"),
    ),
    "fireworks": Provider(
        base_url="https://api.fireworks.ai/inference/v1", key_env="FIREWORKS_API_KEY", resells=True
    ),
    "cerebras": Provider(base_url="https://api.cerebras.ai/v1", key_env="CEREBRAS_API_KEY", resells=True),
    "nvidia": Provider(
        base_url="https://integrate.api.nvidia.com/v1", key_env="NVIDIA_API_KEY", resells=True
    ),
    "huggingface": Provider(base_url="https://router.huggingface.co/v1", key_env="HF_TOKEN", resells=True),
    "azure": Provider(
        base_url="${AZURE_OPENAI_ENDPOINT}/openai/v1", key_env="AZURE_OPENAI_API_KEY", resells=True
    ),
    "ollama": Provider(base_url="http://127.0.0.1:11434/v1"),
    "lmstudio": Provider(base_url="http://127.0.0.1:1234/v1"),
    "llamacpp": Provider(base_url="http://127.0.0.1:8080/v1"),
    "vllm": Provider(base_url="http://127.0.0.1:8000/v1"),
    "sglang": Provider(base_url="http://127.0.0.1:30000/v1"),
    "litellm": Provider(base_url="http://127.0.0.1:4000/v1"),
    "bedrock": Provider(
        base_url="https://bedrock-runtime.us-east-1.amazonaws.com/openai/v1",
        key_env="AWS_BEARER_TOKEN_BEDROCK",
        resells=True,
    ),
}

TITLES: Mapping[str, str] = {
    "ollama": "Ollama",
    "lmstudio": "LM Studio",
    "llamacpp": "llama.cpp",
    "vllm": "vLLM",
    "sglang": "SGLang",
}
"""The names of local model servers as their makers write them, by provider."""
