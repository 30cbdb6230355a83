"""The browsers of an agent's reach: opened when the first page is, closed with the session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.integrations.browser.service import SessionBrowsers
from agent.safety.gate import Gate
from agent.session.wiring.shared_services import Closer, SharedServices
from tools.browser.host import use_remote
from tools.browser.session import Browsers


def open_browsers(
    base: SharedServices,
    workspace: Path,
    scratch: Path,
    gate: Gate,
    secrets: Mapping[str, str],
    closers: list[Closer],
) -> Browsers:
    """Nothing is started before a tool asks for it."""
    settings = base.settings.browser
    host = SessionBrowsers(settings, gate, base.home, workspace, scratch, base.environ, secrets)
    browsers = Browsers(host, idle=settings.idle)
    closers.append(browsers.aclose)
    return browsers


def note_settings(base: SharedServices) -> None:
    """Have the browser tools offered where the settings name a browser that is not on this machine."""
    settings = base.settings.browser
    wants = settings.backend in ("auto", "browserbase") and bool(base.environ.get("BROWSERBASE_API_KEY"))
    use_remote(bool(settings.cdp_url) or bool(settings.program) or wants)
