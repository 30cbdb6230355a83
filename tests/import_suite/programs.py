"""The programs that are run: their packages, how they are set up, and how they are called."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import UV, find_python

NODE = "node@24"


@dataclass(frozen=True, slots=True)
class Setting:
    """One program with a home of its own."""

    home: Path
    command: list[str]
    variables: dict[str, str]

    def run(self, words: list[str], seconds: float = 90) -> str:
        """Run it once in its project; return an error, or nothing."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        kept["PATH"] = f"{Path(self.command[0]).parent}:{kept['PATH']}"
        variables = {**kept, "HOME": str(self.home), "TERM": "xterm-256color", **self.variables}
        process = subprocess.Popen(
            [*self.command, *words],
            cwd=self.home / "w",
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"did not end within {seconds:g} s"
        finally:
            self._end_daemons()
        return "" if process.returncode == 0 else output.decode(errors="replace")[-300:].strip()

    def _end_daemons(self) -> None:
        """End what the program left running: processes whose command names its home."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(str(self.home)) in words and int(entry.name) != os.getpid():
                os.kill(int(entry.name), signal.SIGTERM)


def put(path: Path, content: str) -> None:
    """Write a file, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, "utf-8")


def _claude(bin: Path, home: Path, address: str) -> Setting:
    variables = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "k", "IS_SANDBOX": "1"}
    variables["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    return Setting(home, [str(bin / "claude"), "--dangerously-skip-permissions"], variables)


def _codex(bin: Path, home: Path, address: str) -> Setting:
    provider = f'[model_providers.local]\nname="local"\nbase_url="{address}/v1"\nwire_api="responses"\n'
    put(
        home / ".codex/config.toml",
        f'model="test-model"\nmodel_provider="local"\nmodel_auto_compact_token_limit=50000\n{provider}',
    )
    flags = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return Setting(home, [str(bin / "codex"), *flags], {})


def _opencode(bin: Path, home: Path, address: str) -> Setting:
    model = {"name": "t", "limit": {"context": 100_000, "output": 4_000}}
    options = {"baseURL": f"{address}/v1", "apiKey": "k"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"test-model": model}}
    names = {"model": "local/test-model", "small_model": "local/test-model", "permission": "allow"}
    config = {"provider": {"local": provider}, **names, "autoupdate": False}
    put(home / ".config/opencode/opencode.json", json.dumps(config))
    return Setting(home, [str(bin / "opencode"), "run"], {"OPENCODE_DISABLE_MODELS_FETCH": "1"})


def _gemini(bin: Path, home: Path, address: str) -> Setting:
    settings: dict[str, Any] = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    settings["model"] = {"compressionThreshold": 0.02}  # of 1,048,576 tokens
    put(home / ".gemini/settings.json", json.dumps(settings))
    variables = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": address, "GEMINI_CLI_NO_RELAUNCH": "1"}
    return Setting(home, [str(bin / "gemini"), "--skip-trust", "-y", "-m", "gemini-2.5-pro"], variables)


def _pi(bin: Path, home: Path, address: str) -> Setting:
    model = {"id": "test-model", "name": "t", "contextWindow": 100_000, "maxTokens": 4_000}
    provider = {"baseUrl": f"{address}/v1", "api": "openai-completions", "apiKey": "k", "models": [model]}
    put(home / ".pi/agent/models.json", json.dumps({"providers": {"local": provider}}))
    put(home / ".pi/agent/settings.json", json.dumps({"compaction": {"keepRecentTokens": 1}}))
    return Setting(home, [str(bin / "pi"), "--provider", "local", "--model", "test-model"], {})


def _qwen(bin: Path, home: Path, address: str) -> Setting:
    settings = {"security": {"auth": {"selectedType": "openai"}}}
    put(home / ".qwen/settings.json", json.dumps(settings))
    flags = ["-y", "--auth-type", "openai", "--openai-api-key", "k", "-m", "test-model"]
    return Setting(home, [str(bin / "qwen"), *flags, "--openai-base-url", f"{address}/v1"], {})


def _cline(bin: Path, home: Path, address: str) -> Setting:
    name = "openai-compatible"
    given = {"provider": name, "apiKey": "k", "model": "test-model", "baseUrl": f"{address}/v1"}
    row = {"settings": given, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: row}}
    put(home / ".cline/data/settings/providers.json", json.dumps(providers))
    return Setting(home, [str(bin / "cline"), "-P", name, "-m", "test-model", "--json"], {})


def _hermes(bin: Path, home: Path, address: str) -> Setting:
    model: dict[str, Any] = {
        "provider": "custom",
        "default": "test-model",
        "base_url": f"{address}/v1",
        "api_key": "k",
    }
    model["context_length"] = 64_000
    put(home / ".hermes/config.yaml", json.dumps({"model": model}))
    return Setting(home, [str(bin / "hermes"), "chat", "--yolo", "-Q"], {})


def _vibe(bin: Path, home: Path, address: str) -> Setting:
    provider = (
        f'name="l"\napi_base="{address}/v1"\napi_key_env_var="K"\napi_style="openai"\nbackend="generic"\n'
    )
    model = 'name="test-model"\nprovider="l"\nalias="m"\n'
    flags = 'active_model="m"\nenable_telemetry=false\nenable_update_checks=false\n'
    put(home / ".vibe/config.toml", f"{flags}[[providers]]\n{provider}[[models]]\n{model}")
    variables = {"K": "k", "MISTRAL_API_KEY": "k", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
    return Setting(home, [str(bin / "vibe"), "--agent", "auto-approve", "--trust"], variables)


def _newest(folder: str, pattern: str, ending: str = "") -> Callable[[Path], str]:
    def find(home: Path) -> str:
        paths = sorted((home / folder).glob(pattern), key=lambda path: path.stat().st_mtime)
        return paths[-1].name.removesuffix(ending) if paths else ""

    return find


def _newest_row(file: str, order: str, table: str = "sessions") -> Callable[[Path], str]:
    table = "session" if "opencode" in file else table

    def find(home: Path) -> str:
        if not (home / file).exists():
            return ""
        connection = sqlite3.connect(f"{(home / file).as_uri()}?mode=ro", uri=True)
        row = connection.execute(f"SELECT id FROM {table} ORDER BY {order} DESC LIMIT 1").fetchone()
        connection.close()
        return str(row[0]) if row else ""

    return find


@dataclass(frozen=True, slots=True)
class Tested:
    """One program: its package and the words that begin, resume and fork a session."""

    package: str
    prepare: Callable[[Path, Path, str], Setting]
    newest: Callable[[Path], str]
    begin: tuple[str, ...] = ("-p", "PROMPT")
    resume: tuple[str, ...] = ()
    fork: tuple[str, ...] = ()
    compact: tuple[str, ...] = ()
    """The words that make room in a session; where there are none, it happens by itself beyond `full`."""
    full: int = 0
    """Tokens of a request after which room is made; 0: not for a count alone."""
    pads: bool = False
    """Whether it counts by itself, so that the long session has to be long."""


PROGRAMS = {
    "claude": Tested(
        "@anthropic-ai/claude-code@2.1.332",
        _claude,
        _newest(".claude/projects", "*/*.jsonl", ".jsonl"),
        resume=("--resume", "ID", "-p", "PROMPT"),
        fork=("--resume", "ID", "--fork-session", "-p", "PROMPT"),
        compact=("--resume", "ID", "-p", "/compact"),
        full=190_000,
    ),
    "codex": Tested(
        "@openai/codex@0.171.0",
        _codex,
        lambda home: _newest(".codex/sessions", "*/*/*/*.jsonl", ".jsonl")(home)[-36:],
        begin=("PROMPT",),
        resume=("resume", "ID", "PROMPT"),
        fork=("fork", "ID", "PROMPT"),
        full=60_000,
    ),
    "opencode": Tested(
        "opencode-ai@1.18.33",
        _opencode,
        _newest_row(".local/share/opencode/opencode.db", "time_created"),
        begin=("PROMPT",),
        resume=("-s", "ID", "PROMPT"),
        fork=("-s", "ID", "--fork", "PROMPT"),
        full=99_000,
    ),
    "hermes": Tested(
        "hermes-agent==0.19.0",
        _hermes,
        _newest_row(".hermes/state.db", "started_at"),
        begin=("-q", "PROMPT"),
        resume=("--resume", "ID", "-q", "PROMPT"),
        full=90_000,
        pads=True,
    ),
    "gemini": Tested(
        "@google/gemini-cli@0.61.0",
        _gemini,
        lambda home: "latest",
        resume=("-r", "latest", "-p", "PROMPT"),
        full=900_000,
        pads=True,
    ),
    "pi": Tested(
        "@earendil-works/pi-coding-agent@1.6.0",
        _pi,
        lambda home: _newest(".pi/agent/sessions", "*/*.jsonl", ".jsonl")(home).rpartition("_")[2],
        resume=("--session", "ID", "-p", "PROMPT"),
        fork=("--fork", "ID", "-p", "PROMPT"),
        full=99_000,
    ),
    "vibe": Tested("mistral-vibe==3.0.3", _vibe, _newest(".vibe/logs/session/unified", "*")),
    "cline": Tested(
        "cline@3.0.65",
        _cline,
        _newest(".cline/data/sessions", "*"),
        begin=("PROMPT",),
        full=120_000,
        pads=True,
    ),
    "qwen": Tested(
        "@qwen-code/qwen-code@0.24.4",
        _qwen,
        _newest(".qwen/projects", "*/chats/*.jsonl", ".jsonl"),
        resume=("-r", "ID", "-p", "PROMPT"),
        full=176_000,
    ),
}


def install(name: str, packages: str, cache: Path) -> Path:
    """Install packages of npm or PyPI (words parted by spaces) once; return the folder with their commands.

    Raises `OSError`, `CalledProcessError` and `Missing`.
    """
    words = packages.split()
    place = cache / f"{name}-{words[0].rpartition('@')[2].rpartition('=')[2]}"
    ready = place / ".ready"
    python = "==" in packages
    quiet: dict[str, Any] = {"check": True, "capture_output": True}
    if not ready.exists() or ready.read_text() != packages:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        if python:
            subprocess.run([find_python((3, 12)), "-m", "venv", place], **quiet)
            subprocess.run([place / "bin/python", "-m", "pip", "install", "-q", UV], **quiet)
            (place / "overrides.txt").write_text("certifi>=2026.10.19")  # vibe pins one that is gone
            options = ["-q", "--python", place / "bin/python", "--override", place / "overrides.txt"]
            subprocess.run([place / "bin/uv", "pip", "install", *options, *words], **quiet)
        else:
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", place, NODE, *words]
            subprocess.run(command, **quiet)
        ready.write_text(packages)
    return place / "bin" if python else place / "node_modules/.bin"
