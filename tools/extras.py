"""Extras of `pyproject.toml`: what each installs, its size, and its requirements."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import NamedTuple

from tools.command_name import command_name


class Extra(NamedTuple):
    """One optional set of packages."""

    brings: str
    size: int
    """Megabytes to download if nothing of it is installed."""
    modules: tuple[str, ...]
    """Modules that exist once it is installed."""


EXTRAS = {
    "local": Extra("a small model that runs on this machine", 35, ("xllamacpp",)),
    "web": Extra(
        "reading of web pages and documents, crawling, and search without a key",
        25,
        ("trafilatura", "lxml", "html_to_markdown", "pypdf", "mammoth", "protego", "ddgs"),
    ),
    "serve": Extra(
        "sessions in the browser, on the phone and from messengers",
        2,
        ("starlette", "uvicorn", "websockets", "segno"),
    ),
    "acp": Extra("work in editors that speak the Agent Client Protocol, and agents of others", 1, ("acp",)),
    "semantic": Extra("search in sessions, notes and skills by meaning", 30, ("wordllama",)),
    "browser": Extra("browsers that run elsewhere (Browserbase)", 1, ("websockets",)),
    "ocr": Extra("reading of text in pictures on this machine", 130, ("rapidocr", "onnxruntime")),
    "speech": Extra("reading answers aloud on this machine", 60, ("hibari",)),
    "telegram": Extra("the messenger Telegram", 2, ("telegram",)),
    "discord": Extra("the messenger Discord", 4, ("discord",)),
    "slack": Extra("the messenger Slack", 3, ("slack_sdk", "aiohttp")),
    "matrix": Extra("the messenger Matrix", 3, ("nio",)),
    "modal": Extra("commands in sandboxes of Modal", 8, ("modal",)),
    "daytona": Extra("commands in sandboxes of Daytona", 12, ("daytona",)),
    "ray": Extra("batches on a Ray cluster", 75, ("ray",)),
    "wandb": Extra("figures of evaluations and training at Weights & Biases", 30, ("wandb",)),
    "tinker": Extra("training weights at Tinker", 10, ("tinker",)),
}


def is_installed(name: str) -> bool:
    """Return whether everything that an extra needs is installed, without importing it."""
    return all(find_spec(module) is not None for module in EXTRAS[name].modules)


def add_hint(name: str) -> str:
    """Return the command that adds an extra, in a form usable here: `hermes extras add ocr`."""
    return f"{command_name()} extras add {name}"


def named_extra(sentence: str) -> str:
    """Return the extra that a sentence suggests in the form of `add_hint`; empty for none. Pure."""
    found = re.search(r"\bextras add ([a-z]+)\b", sentence)
    return found[1] if found and found[1] in EXTRAS else ""


def missing(what: str, name: str) -> str:
    """Return a sentence that `what` needs the extra `name`, which is not installed."""
    return f"{what} needs the extra `{name}` ({EXTRAS[name].brings}); add it with `{add_hint(name)}`."
