"""Transcription of voice messages by the configured service or a plugin, charged to the session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import HermesError
from tools.results import ToolError
from tools.services.actions import Action

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.core.config.schema import Settings
    from agent.integrations.senses.hearing import Transcriber
    from agent.model.catalog import ModelInfo
    from agent.session.engine import Engine
    from agent.session.spending.request_log import RequestLog

ENDINGS = {"": ".ogg", ".oga": ".ogg", ".opus": ".ogg", ".aac": ".m4a"}
"""Suffixes of recordings, and the suffixes that transcription services expect for them."""


async def transcribe(
    engine: Engine, settings: Settings, environ: Mapping[str, str], data: bytes, name: str
) -> str:
    """Return the text of a recording. Raises `HermesError`."""
    from agent.integrations.senses.hearing import check_recording
    from agent.integrations.senses.kinds import transcribe_sound as heard_by
    from agent.integrations.senses.service import readiness
    from agent.session.wiring.plugin_senses import plugin_services

    if engine.mode in ("plan", "deny"):
        raise HermesError(f"Nothing leaves in mode {engine.mode}, so the recording was not written down")
    brought = plugin_services(engine.session_plugins).get("transcribe")
    names = {} if brought is None else {"transcribe": brought.name}
    found = readiness(settings, environ, sees=False, brought=names)
    ready = next(each for each in found if each.tool == "transcribe")
    if not ready.works:
        raise HermesError(f"{ready.missing}; {ready.mend}")
    ending = Path(name).suffix.lower()
    ending = ENDINGS.get(ending, ending)
    try:
        if brought is not None and brought.name == ready.by:
            heard = await heard_by(
                brought, data, *check_recording(data, f"voice{ending}", ""), _sent_for_this
            )
        else:
            listener = _listener(engine, settings, environ)
            heard = await listener.transcribe(ready.by, data, f"voice{ending}", "", _sent_for_this)
    except ToolError as error:
        raise HermesError(str(error)) from error
    return str(heard["text"])


def _listener(engine: Engine, settings: Settings, environ: Mapping[str, str]) -> Transcriber:
    """Return the transcriber that the settings configure; its requests are charged to the session."""
    from agent.core.net.door import WebClient
    from agent.integrations.senses.hearing import Transcriber
    from agent.integrations.senses.online import Online
    from agent.session.spending.metering import ServiceAccount
    from agent.session.spending.request_log import request_log_of
    from agent.session.spending.request_table import MAIN, Payer

    metering = engine.metering

    def log_of(model: str, info: ModelInfo) -> RequestLog:
        payer = Payer(
            session=metering.session, project=engine.session.record.workspace, agent=MAIN, model=model
        )
        return request_log_of(metering.spending, payer, info)

    return Transcriber(
        settings.transcribe,
        environ,
        Online(WebClient(secrets={}, environ=environ)),
        ServiceAccount(metering.account, log_of).paying,
    )


async def _sent_for_this(_action: Action) -> None:
    """Permit the action without a question, because the user sent the message and chose the service."""
