"""The agents that are sent: their packages, how they are set up, and how they start."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.import_suite.programs import PROGRAMS, Setting, put


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent: its packages, and what sets it up for a model at an address."""

    packages: str
    prepare: Callable[[Path, Path, str], Setting]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Its other settings in Hermes."""
    faults: Mapping[str, str] = field(default_factory=dict[str, str])
    """By situation: what it does wrong, or does not have."""

    @property
    def version(self) -> str:
        return self.packages.split()[0].replace("==", "@").rpartition("@")[2]


def _as(name: str, *command: str, **variables: str) -> Callable[[Path, Path, str], Setting]:
    """Return the set-up of a program of the import suite, started by another command."""

    def prepare(bin: Path, home: Path, address: str) -> Setting:
        setting = PROGRAMS[name].prepare(bin, home, address)
        words = [str(bin / command[0]), *command[1:]]
        return replace(setting, command=words, variables={**setting.variables, **variables})

    return prepare


def _claude(bin: Path, home: Path, address: str) -> Setting:
    return _as("claude", "claude-agent-acp", IS_SANDBOX="")(bin, home, address)


def _opencode(bin: Path, home: Path, address: str) -> Setting:
    setting = _as("opencode", "opencode", "acp")(bin, home, address)
    _ask(home / ".config/opencode/opencode.json")
    return setting


def _kilo(bin: Path, home: Path, address: str) -> Setting:
    setting = _as("opencode", "kilo", "acp", KILO_DISABLE_MODELS_FETCH="1")(bin, home, address)
    (home / ".config/opencode").rename(home / ".config/kilo")
    _ask(home / ".config/kilo/opencode.json")
    return setting


def _ask(file: Path) -> None:
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "permission": {"bash": "ask", "edit": "ask"}}))


def _qwen(bin: Path, home: Path, address: str) -> Setting:
    setting = PROGRAMS["qwen"].prepare(bin, home, address)
    words = [word for word in setting.command if word != "-y"]
    return replace(setting, command=[*words, "--acp"])


def _cline(bin: Path, home: Path, address: str) -> Setting:
    setting = PROGRAMS["cline"].prepare(bin, home, address)
    # Over ACP it takes no provider but its own.
    variables = {"CLINE_API_KEY": "k", "CLINE_API_BASE_URL": address}
    return replace(setting, command=[setting.command[0], "--acp"], variables=variables)


def _kimi(bin: Path, home: Path, address: str) -> Setting:
    provider = f'[providers.l]\ntype="openai"\nbase_url="{address}/v1"\napi_key="k"\n'
    model = '[models.m]\nprovider="l"\nmodel="test-model"\nmax_context_size=100000\n'
    put(home / ".kimi-code/config.toml", f'default_model="m"\n{provider}{model}')
    return Setting(home, [str(bin / "kimi"), "acp"], {})


def _copilot(bin: Path, home: Path, address: str) -> Setting:
    variables = {
        "COPILOT_PROVIDER_BASE_URL": f"{address}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_API_KEY": "k",
        "COPILOT_MODEL": "test-model",
        "COPILOT_OFFLINE": "true",
    }
    return Setting(home, [str(bin / "copilot"), "--acp"], variables)


def _gptme(bin: Path, home: Path, address: str) -> Setting:
    variables = {"OPENAI_BASE_URL": f"{address}/v1", "OPENAI_API_KEY": "k", "MODEL": "local/test-model"}
    return Setting(home, [str(bin / "gptme-acp")], variables)


def _fast_agent(bin: Path, home: Path, address: str) -> Setting:
    variables = {"GENERIC_BASE_URL": f"{address}/v1", "GENERIC_API_KEY": "k"}
    return Setting(home, [str(bin / "fast-agent"), "acp", "--model", "generic.test-model", "-x"], variables)


_SELDOM = "asks about dangerous commands only"
_NEVER = "asks for nothing"
_TITLE = "leaves out requests beside the turn, such as one for a title"
_ANEW = "begins a refused call again after its end: a second card, failed"
_GATED = ("allowed", "rule", "person", "yolo", "parallel")

AGENTS = {
    "claude-agent-acp": Agent(
        "@agentclientprotocol/claude-agent-acp@0.101.0",
        _claude,
        faults={"usage": _TITLE},
    ),
    "codex-acp": Agent(
        "@agentclientprotocol/codex-acp@2.6.0",
        _as("codex", "codex-acp", OPENAI_API_KEY="k"),
        faults={"parallel": "ends its turn when a call is refused; those beside it are not carried out"},
    ),
    "gemini": Agent(
        "@google/gemini-cli@0.61.0",
        _as("gemini", "gemini", "--acp", "--skip-trust", "-m", "gemini-2.5-pro"),
        {"files": False},  # else it makes no new file: it takes no client's answer for "there is none"
    ),
    "opencode": Agent(
        "opencode-ai@1.18.33",
        _opencode,
        faults={
            "sign-in": "demands none: it goes on with models of its own",
            "usage": "names its last request only",
        },
    ),
    "kilo": Agent(
        "@kilocode/cli@7.7.7",  # of 7.8.1 npm has no program for Linux
        _kilo,
        faults={
            "sign-in": "demands none: it goes on trying to reach models of its own",
            "usage": "names its last request only",
        },
    ),
    "qwen": Agent("@qwen-code/qwen-code@0.24.4", _qwen),
    "cline": Agent(
        "cline@3.0.65",
        _cline,
        faults=dict.fromkeys(("rule", "person", "yolo", "parallel"), _ANEW),
    ),
    "pi-acp": Agent(
        "pi-acp@0.0.34 @earendil-works/pi-coding-agent@1.6.0",
        _as("pi", "pi-acp"),
        faults={
            **dict.fromkeys((*_GATED, "files"), _NEVER),
            "usage": "names what its context holds",
        },
    ),
    "copilot": Agent("@github/copilot@1.0.102", _copilot),
    "vibe": Agent(
        "mistral-vibe==3.0.3",
        _as("vibe", "vibe-acp"),
        faults={
            "again": "does not carry out a second call under one id",
            "usage": _TITLE,
        },
    ),
    # Of kimi-cli on PyPI, the newest version (1.52.0) says that it is no longer maintained, and ends.
    "kimi": Agent("@moonshot-ai/kimi-code@2.1.0", _kimi),
    "hermes-agent": Agent(
        "hermes-agent[acp]==0.19.0",
        _as("hermes", "hermes", "acp"),
        faults={
            **dict.fromkeys(_GATED, _SELDOM),
            "again": "sends the calls under one id again without the first result",
            "sign-in": "answers with an internal error",
            "usage": _TITLE,
        },
    ),
    "fast-agent": Agent(
        "fast-agent-mcp==0.10.48",
        _fast_agent,
        faults={
            **dict.fromkeys((*_GATED, "files"), _NEVER),
            "sign-in": "ends its turn as refused",
            **dict.fromkeys(("again", "title"), "tells of a command once, as pending and without its line"),
        },
    ),
    "gptme": Agent(
        "gptme-acp==0.35.1",
        _gptme,
        faults={
            **dict.fromkeys((*_GATED, "again", "title", "files"), "asks for nothing, and tells of no call"),
            "sign-in": "ends its turn as cancelled",
        },
    ),
}
