"""The language servers that are installed."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial


def servers_found(environ: Mapping[str, str]) -> dict[str, str]:
    """By language the server that is used unless settings name another; empty: none is installed."""
    from agent.integrations.diagnostics.languages import LANGUAGES, installed

    find = partial(shutil.which, path=environ.get("PATH", ""))
    found = {each.name: installed(each, {}, find) for each in LANGUAGES}
    return {name: "" if kind is None else kind.name for name, kind in found.items()}
