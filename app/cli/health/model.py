"""Checks that the configured model can be reached, without sending it a prompt."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from app.cli.health.check import HealthFinding, HealthSubject

if TYPE_CHECKING:
    from agent.model.providers import NoModelError, Target

SECONDS = 3.0
"""Time for one address to answer."""


def model(subject: HealthSubject) -> HealthFinding:
    """Check that the first configured model answers, or can be started."""
    from agent.core.config.loader import load
    from agent.model.providers import NoModelError, resolve

    loaded = load(subject.home, subject.environ, subject.workspace)
    try:
        target = resolve(loaded.settings, loaded.environ, None)[0]
    except NoModelError as error:
        return asyncio.run(_no_model_finding(error))
    except ConfigError as error:
        return HealthFinding("model", "fail", str(error), "See `hermes config check`.")
    if target.kind == "demo":
        return HealthFinding("model", "ok", "demo: scripted, needs nothing")
    if target.kind == "local":
        return _local(subject, target.path or loaded.settings.local.model)
    return asyncio.run(_check_provider(target))


async def _no_model_finding(error: NoModelError) -> HealthFinding:
    from agent.model.detect import detect

    return HealthFinding("model", "warn", "none is configured", str(error.with_servers(await detect())))


def _local(subject: HealthSubject, setting: str) -> HealthFinding:
    from agent.model.local.server import MISSING
    from agent.model.local.sources import model_file

    try:
        path = model_file(subject.home, setting)
    except ConfigError as error:
        return HealthFinding("model", "fail", "local: there is no model file", str(error))
    if importlib.util.find_spec("xllamacpp") is None:
        return HealthFinding("model", "fail", f"local: {path.name} cannot be run", MISSING)
    return HealthFinding("model", "ok", f"local: {path.name}, started when it is needed")


async def _check_provider(target: Target) -> HealthFinding:
    """Request the list of models: this is free and verifies address and key."""
    import httpx2

    from agent.model.addresses import is_loopback, list_of_models

    name = f"{target.label} at {httpx2.URL(target.base_url).host}"
    try:
        headers = target.request_headers()
        outside = not is_loopback(target.base_url)
        async with httpx2.AsyncClient(timeout=SECONDS, trust_env=outside) as client:
            reply = await client.get(list_of_models(target.base_url), headers=headers)
    except httpx2.TimeoutException:
        return HealthFinding("model", "fail", f"{name} does not answer", "Check the address and the network.")
    except httpx2.ConnectError as error:
        reason = re.sub(r"^\[Errno -?\d+\] ", "", str(error))
        return HealthFinding("model", "fail", f"{name}: {reason}", "Start the server, or fix its base_url.")
    except ConfigError as error:
        return HealthFinding("model", "fail", f"{target.label} cannot be asked", str(error))
    except (httpx2.HTTPError, ValueError) as error:
        # The text of these errors may quote a header, and so the key.
        detail = f"{name} cannot be asked ({type(error).__name__})"
        return HealthFinding("model", "fail", detail, "Check base_url, key and headers of this provider.")
    if reply.status_code in (401, 403):
        mend = f"Set {target.key_hint} in the environment or in ~/.hermes/.env."
        return HealthFinding("model", "fail", f"{name} refuses the key", mend)
    if reply.status_code >= 500:
        return HealthFinding(
            "model", "warn", f"{name} answers with HTTP {reply.status_code}", "Try again later."
        )
    if not reply.is_success:
        detail = f"{name} answers, but lists no models (HTTP {reply.status_code})"
        return HealthFinding("model", "ok", detail)
    return HealthFinding("model", "ok", f"{name} answers")
