"""Tests of tokens by requests to the platform, before anything is stored."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError
from agent.integrations.gateways.adapter import (
    BadCredentialsError,
    GatewayContext,
    GatewayError,
    GatewayKind,
    answer_of,
    http_client,
    is_page,
    raise_for_status,
)
from tools.extras import missing as needs_extra
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.sections import GatewaySettings
    from agent.integrations.gateways.adapter import HttpClient

SECONDS = 20.0
"""The time limit for an answer of a platform, in seconds."""
_SLACK = {
    "invalid_auth": "does not know this token",
    "not_authed": "got no token",
    "account_inactive": "says that the account of this token is gone",
    "token_revoked": "says that this token was revoked",
    "token_expired": "says that this token has expired",
    "missing_scope": "says that the token lacks a scope",
    "not_allowed_token_type": "wants another kind of token here",
}


REQUIRED: Mapping[str, tuple[str, ...]] = {
    "matrix": ("api_url",),
    "whatsapp": ("phone_id",),
    "email": ("address", "imap_host", "smtp_host"),
}
"""Settings without which a messenger cannot run, in addition to its secrets."""


def lacks(kind: GatewayKind) -> str:
    """Return a sentence on what must be installed before a gateway can run; empty if nothing is missing."""
    if kind.module and find_spec(kind.module) is None:
        return needs_extra(kind.title, kind.extra)
    return ""


def missing(kind: GatewayKind, settings: GatewaySettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of variables and settings that a gateway needs but that are not set. Pure."""
    variables = [str(getattr(settings, each.field, "") or each.variable) for each in kind.secrets]
    fields = [
        f"gateways.{kind.name}.{name}" for name in REQUIRED.get(kind.name, ()) if not getattr(settings, name)
    ]
    return (*(name for name in variables if not environ.get(name, "").strip()), *fields)


async def check_gateway(
    kind: GatewayKind, settings: GatewaySettings, environ: Mapping[str, str], folder: Path
) -> str:
    """Return the bot's name on the platform with these settings, such as `@name`.

    `folder` is private to the messenger. Raises `GatewayError` or `ConfigError` with what is wrong.
    """
    context = GatewayContext(kind.name, settings, environ, folder)
    checking = _CHECKS.get(kind.name)
    if checking is None:
        raise ConfigError(f"{kind.title} cannot be checked; nothing knows how.")
    for name in ("httpx", "httpx2"):
        # Addresses of some platforms hold the token.
        logging.getLogger(name).setLevel(logging.WARNING)
    client = await asyncio.to_thread(http_client, SECONDS)
    try:
        return clean(await checking(client, context, kind.title))[:100]
    except GatewayError as error:
        if "cannot be reached" not in str(error):
            raise
        ours = f"gateways.{kind.name}.api_url is {settings.api_url}."
        raise GatewayError(f"{error} {ours if settings.api_url else 'Check the network.'}") from None
    finally:
        await client.aclose()


def _base(context: GatewayContext, usual: str) -> str:
    return (context.settings.api_url or usual).rstrip("/")


async def _telegram(client: HttpClient, context: GatewayContext, title: str) -> str:
    token = context.secret("token_env")
    url = f"{_base(context, 'https://api.telegram.org')}/bot{token}/getMe"
    told = await _fetch_json(client, "GET", url, title, wrong=(400, 404))
    me = _mapping(_mapping(told, title).get("result"), title)
    return f"@{me.get('username') or me.get('id')}"


async def _discord(client: HttpClient, context: GatewayContext, title: str) -> str:
    headers = {"Authorization": f"Bot {context.secret('token_env')}"}
    url = f"{_base(context, 'https://discord.com/api/v10')}/users/@me"
    me = _mapping(await _fetch_json(client, "GET", url, title, headers=headers), title)
    if not me.get("bot", True):
        raise BadCredentialsError("This is the token of a person at Discord; take that of a bot.")
    return f"@{me.get('username') or me.get('id')}"


async def _slack(client: HttpClient, context: GatewayContext, title: str) -> str:
    base, who = _base(context, "https://slack.com/api"), ""
    for field, method in (("bot_token_env", "auth.test"), ("app_token_env", "apps.connections.open")):
        headers = {"Authorization": f"Bearer {context.secret(field)}"}
        told = _mapping(await _fetch_json(client, "POST", f"{base}/{method}", title, headers=headers), title)
        if not told.get("ok"):
            code = str(told.get("error") or "no reason")
            which = "bot token" if field == "bot_token_env" else "app-level token"
            raise BadCredentialsError(f"{title} {_SLACK.get(code, f'refuses with {code[:60]}')} ({which}).")
        who = who or f"@{told.get('user') or told.get('user_id')}"
    return who


async def _whatsapp(client: HttpClient, context: GatewayContext, title: str) -> str:
    phone = str(getattr(context.settings, "phone_id", ""))
    if not phone.isdigit():
        raise ConfigError("gateways.whatsapp.phone_id is missing or no number; see API Setup of the app.")
    for field in ("secret_env", "verify_env"):
        context.secret(field)
    headers = {"Authorization": f"Bearer {context.secret('token_env')}"}
    url = f"{_base(context, 'https://graph.facebook.com/v23.0')}/{phone}?fields=display_phone_number"
    told = _mapping(await _fetch_json(client, "GET", url, title, headers=headers, wrong=(400,)), title)
    return str(told.get("display_phone_number") or phone)


async def _signal(client: HttpClient, context: GatewayContext, title: str) -> str:
    account = str(getattr(context.settings, "account", ""))
    body = {"jsonrpc": "2.0", "id": 1, "method": "listAccounts"}
    url = f"{_base(context, 'http://127.0.0.1:8080')}/api/v1/rpc"
    told = _mapping(await _fetch_json(client, "POST", url, "signal-cli", body=body), title)
    listed, refused = told.get("result"), told.get("error")
    if isinstance(refused, Mapping) and refused.get("code") == -32601:
        # A daemon of one account has no list of them.
        return account or "the account of the daemon"
    numbers = [
        str(each.get("number") or each.get("aci")) for each in listed or () if isinstance(each, Mapping)
    ]
    if isinstance(listed, list) and account and account not in numbers:
        raise ConfigError(f"The daemon does not have {account}; it has {', '.join(numbers) or 'none'}.")
    if not account and len(numbers) != 1:
        raise ConfigError(f"The daemon has {len(numbers)} accounts; name yours as gateways.signal.account.")
    return account or numbers[0]


async def _matrix(client: HttpClient, context: GatewayContext, title: str) -> str:
    if not context.settings.api_url:
        raise ConfigError("The address of your homeserver is missing: gateways.matrix.api_url.")
    headers = {"Authorization": f"Bearer {context.secret('token_env')}"}
    url = f"{_base(context, '')}/_matrix/client/v3/account/whoami"
    me = _mapping(await _fetch_json(client, "GET", url, title, headers=headers), title)
    return str(me.get("user_id"))


async def _email(_client: HttpClient, context: GatewayContext, title: str) -> str:
    """Sign in to the mail server without reading any mail, and return the address."""
    from agent.integrations.gateways.platforms.email import EmailAdapter

    adapter, found = EmailAdapter(context), asyncio.get_running_loop().create_future()

    async def nothing(_incoming: Any) -> None:
        """Refuse incoming mail, so that it stays unread for the service."""
        raise GatewayError("The gateway does not run yet.")

    def ready(who: str) -> None:
        if not found.done():
            found.set_result(who)

    running = asyncio.create_task(adapter.run(nothing, ready))
    try:
        async with asyncio.timeout(SECONDS):
            await asyncio.wait([running, found], return_when=asyncio.FIRST_COMPLETED)
        if not found.done():
            await running
            raise GatewayError(f"{title} ended the connection.")
        return str(found.result())
    except TimeoutError:
        raise GatewayError(f"{title} does not answer; check imap_host.") from None
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await adapter.aclose()


async def _webhook(client: HttpClient, context: GatewayContext, title: str) -> str:
    if len(context.secret("secret_env")) < 16:
        raise ConfigError("The secret of the webhook is short; take one of 16 characters or more.")
    url = context.settings.api_url
    if not url:
        return "no address for answers"
    # What it says does not count: it takes only what is signed and meant for it.
    await answer_of(client, "HEAD", url, title)
    return url


_CHECKS: dict[str, Callable[[HttpClient, GatewayContext, str], Awaitable[str]]] = {
    "telegram": _telegram,
    "discord": _discord,
    "slack": _slack,
    "whatsapp": _whatsapp,
    "signal": _signal,
    "matrix": _matrix,
    "email": _email,
    "webhook": _webhook,
}


async def _fetch_json(
    client: HttpClient,
    method: str,
    url: str,
    title: str,
    *,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    wrong: tuple[int, ...] = (),
) -> Any:
    """Send a request and return its JSON. `wrong` are further statuses, besides 401 and 403, that mean a
    wrong token.

    Errors never contain the URL, because it may include a token. Raises `GatewayError`.
    """
    status, answered, data = await answer_of(client, method, url, title, body=body, headers=headers)
    if status in (401, 403, *wrong) and not is_page(data):
        raise BadCredentialsError(f"{title} does not take this token; copy it again.")
    raise_for_status(status, answered, data, title)
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise GatewayError(f"{title} answers something else than JSON; check its api_url.") from None


def _mapping(told: Any, title: str) -> Mapping[str, Any]:
    if not isinstance(told, Mapping):
        raise GatewayError(f"{title} answers in another form; check its api_url.")
    return told
