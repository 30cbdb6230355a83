"""Providers that need no configuration, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An address, the format spoken there, and the variable that holds its key (empty: none needed)."""

    base_url: str
    key_env: str = ""
    format: str = "chat"
    resells: bool = False
    """Whether it offers models of many makers, named `maker/model`."""
    key_path: str = "models"
    """What below the address answers only to a valid key, at no cost."""
    families: tuple[str, ...] = ()
    """Beginnings of the names of models it makes."""


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
        key_path="key",  # anybody is told of the models
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
"""How the local servers call themselves."""
