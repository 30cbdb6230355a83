"""A client of the Atropos trajectory API: registers an environment and sends scored groups.

The format is that of `atroposlib/api/server.py`, commit 296a0bc5 (July 2026).
"""

from __future__ import annotations

import asyncio
import gzip
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

from agent.errors import ConfigError, HermesError
from agent.model.addresses import is_loopback

_COMPRESSED = 1_024
"""The size in bytes from which a request body is compressed, as in Atropos's own environments."""
_TRIES, _PAUSE = 5, 0.5
_WAITING = 2.0
"""Seconds between checks whether a trainer has started, or its queue has room."""
_TIMEOUT = 60.0


class AtroposError(HermesError):
    """Raised if the API cannot be reached, rejects the data or gives an invalid answer."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The API's answer to a registration."""

    env_id: int
    name: str
    starting_step: int


class AtroposClient:
    """A client of one API. Its methods raise `AtroposError`."""

    def __init__(self, address: str) -> None:
        """Create a client. Raises `ConfigError` for an invalid address."""
        try:
            url = urlsplit(address)
        except ValueError:
            url = urlsplit("")
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ConfigError(
                f"{address[:80]!r} is not an address of an API; give one like http://127.0.0.1:8000."
            )
        self._address = address.rstrip("/")
        self._client = httpx2.AsyncClient(timeout=_TIMEOUT, trust_env=not is_loopback(address))

    async def aclose(self) -> None:
        await self._client.aclose()

    async def register(self, name: str, group_size: int, max_tokens: int, wait: float) -> Registered:
        """Register the environment; return the answer. Waits up to `wait` seconds for a trainer."""
        body = {
            "max_token_length": max_tokens,
            "desired_name": name,
            "weight": 1.0,
            "group_size": group_size,
        }
        waited = 0.0
        while True:
            said = await self._request("POST", "/register-env", body)
            if said.get("status") == "success" and isinstance(said.get("env_id"), int):
                step = said.get("starting_step")
                name = str(said.get("wandb_name", name))
                return Registered(said["env_id"], name, step if isinstance(step, int) else 0)
            if waited >= wait:
                raise AtroposError(
                    f"No trainer has asked {self._address} for a batch yet ({said.get('status')}); "
                    "start one, or wait longer with --wait."
                )
            await asyncio.sleep(_WAITING)
            waited += _WAITING

    async def room(self, env_id: int, most: int) -> None:
        """Wait until fewer than `most` groups are queued for the trainer, without a time limit."""
        while True:
            said = await self._request("GET", "/status-env", {"env_id": env_id})
            waiting = said.get("queue_size")
            if not isinstance(waiting, int) or waiting < most:
                return
            await asyncio.sleep(_WAITING)

    async def hand_in(self, data: dict[str, Any]) -> str:
        """Send a group and return the API's status, `received` or `buffered`."""
        return str((await self._request("POST", "/scored_data", data)).get("status", ""))

    async def leave(self, env_id: int) -> None:
        """Tell the API that no more groups will come."""
        await self._request("POST", "/disconnect-env", {"env_id": env_id})

    async def _request(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        content, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
        if len(content) >= _COMPRESSED:
            content = await asyncio.to_thread(gzip.compress, content)
            headers["Content-Encoding"] = "gzip"
        for tried in range(1, _TRIES + 1):
            try:
                answer = await self._client.request(
                    method, self._address + path, content=content, headers=headers
                )
            except httpx2.HTTPError as error:
                if tried == _TRIES:
                    raise AtroposError(f"{self._address} cannot be reached: {error}.") from error
            else:
                if answer.status_code < 400:
                    return _read(answer.content)
                if answer.status_code < 500 or tried == _TRIES:
                    said = answer.text[:300]
                    raise AtroposError(f"{self._address}{path} answers {answer.status_code}: {said}")
            await asyncio.sleep(_PAUSE * 2**tried)
        raise AssertionError


def _read(content: bytes) -> dict[str, Any]:
    try:
        given = json.loads(content)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise AtroposError("The API answers with something that is not a JSON object; check the address.")
    return given
