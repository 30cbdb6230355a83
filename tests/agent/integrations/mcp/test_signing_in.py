"""Signing in to a server: kept, renewed by whoever is first, made anew when forgotten, each refusal."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.core.config.schema import McpServerSettings, SandboxSettings
from agent.core.home import Home
from agent.integrations.mcp.host.connection import ServerConnection
from agent.integrations.mcp.host.results import CallFaultError
from agent.integrations.mcp.launch import ServerLaunch, SignIn
from agent.integrations.mcp.server import Server, ServerError
from agent.integrations.mcp.server_config import DeclaredServer, LaunchEnvironment, server_config
from agent.integrations.mcp.service import McpService
from agent.session.wiring.session_servers import SessionAnswers
from tests.support.web_server import WebServer, web_server


def follow(url: str) -> None:
    """What a browser does whose owner says yes to all."""
    with urllib.request.urlopen(url, timeout=20) as response:
        response.read()


@asynccontextmanager
async def signed_in(
    web: WebServer, folder: Path, *, interactive: bool = True, **sign_in: Any
) -> AsyncIterator[ServerConnection]:
    async def ask(kind: str, params: Any) -> Any:
        assert kind == "sign_in"
        await asyncio.to_thread(follow, params["url"])
        return {}

    launch = ServerLaunch(
        name="web",
        transport="http",
        folder=str(folder / "place"),
        tokens=str(folder / "tokens" / "web.json"),
        files=str(folder / "files"),
        url=f"{web.url}/mcp",
        sign_in=SignIn(interactive=interactive, **sign_in),
    )
    connection = ServerConnection(launch, lambda _event, _fields: None, ask)
    try:
        await asyncio.wait_for(connection.open(), 30)
        yield connection
    finally:
        await connection.close()


def kept(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "tokens" / "web.json").read_text())


async def said(web: WebServer, folder: Path, **sign_in: Any) -> Any:
    async with signed_in(web, folder, **sign_in) as connection:
        return (await connection.call_tool(1, "echo", {"text": "hi"}))["content"]


@pytest.mark.thorough
async def test_what_signing_in_gave_is_kept_privately_and_used_without_a_person(tmp_path: Path) -> None:
    with web_server(asks_sign_in=True) as web:
        assert await said(web, tmp_path) == "hi"
        assert await said(web, tmp_path, interactive=False) == "hi"
        assert [web.count(step) for step in ("register", "authorize", "token", "refresh")] == [1, 1, 1, 0]
    file = tmp_path / "tokens" / "web.json"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert {each.stat().st_mode & 0o077 for each in file.parent.iterdir()} == {0}


@pytest.mark.thorough
async def test_tokens_that_ended_are_renewed_by_one_of_many_and_none_is_lost(tmp_path: Path) -> None:
    with web_server(asks_sign_in=True, ends_in=1, refresh_takes=0.05) as web:
        await said(web, tmp_path)
        web.ends_in = 3600
        answers = await asyncio.gather(*(said(web, tmp_path, interactive=False) for _ in range(4)))
        assert answers == ["hi"] * 4
        assert web.count("refresh") == 1 and web.count("authorize") == 1
        assert kept(tmp_path)["tokens"]["refresh_token"] in web.refreshes


@pytest.mark.thorough
async def test_tokens_that_the_server_no_longer_takes_are_renewed_before_anybody_is_asked(
    tmp_path: Path,
) -> None:
    with web_server(asks_sign_in=True) as web:
        await said(web, tmp_path)
        web.tokens.clear()
        assert await said(web, tmp_path, interactive=False) == "hi"
        assert (web.count("refresh"), web.count("authorize")) == (1, 1)


@pytest.mark.thorough
async def test_a_registration_that_the_server_forgot_is_made_anew_once(tmp_path: Path) -> None:
    with web_server(asks_sign_in=True) as web:
        await said(web, tmp_path)
        before = kept(tmp_path)["client"]["client_id"]
        web.clients.clear()
        web.tokens.clear()
        assert await said(web, tmp_path) == "hi"
        assert web.count("register") == 2 and kept(tmp_path)["client"]["client_id"] != before
        # A server that knows nobody, ever, is not asked without end.
        web.clients.clear()
        web.tokens.clear()
        web.broken["token"] = (401, {"error": "invalid_client"})
        with pytest.raises(CallFaultError, match="signing in failed"):
            await said(web, tmp_path)
        assert web.count("register") == 4


async def test_with_nobody_there_a_sign_in_is_asked_for(tmp_path: Path) -> None:
    with web_server(asks_sign_in=True) as web:
        with pytest.raises(CallFaultError) as raised:
            await said(web, tmp_path, interactive=False)
        assert raised.value.sign_in
        sentence = str(ServerError("web", str(raised.value), sign_in=True))
        assert "hermes mcp login web" in sentence and web.count("authorize") == 0


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("step", "broken", "clause"),
    [
        ("metadata", (500, {}), "register"),
        ("register", (400, {"error": "invalid_redirect_uri"}), "invalid_redirect_uri"),
        ("register", (503, {}), "503"),
        ("register", (201, {"nothing": "of use"}), "signing in failed"),
        ("authorize", (302, {"error": "access_denied"}), "access_denied"),
        (
            "token",
            (400, {"error": "invalid_grant", "error_description": "too \x1b[31mlate"}),
            "invalid_grant (too late)",
        ),
        ("token", (500, {}), "500"),
        ("token", (200, {"access_token": 5}), "signing in failed"),
        ("mcp", (500, {}), "error response"),
    ],
)
async def test_what_fails_on_the_way_is_one_clause(
    tmp_path: Path, step: str, broken: tuple[int, Any], clause: str
) -> None:
    with web_server(asks_sign_in=True, broken={step: broken}) as web:
        if step == "metadata":  # without a description the usual addresses are tried
            web.broken["register"] = (404, {"error": "register elsewhere"})
        with pytest.raises(CallFaultError) as raised:
            await said(web, tmp_path)
        text = str(raised.value)
        assert clause in text and "\n" not in text and "\x1b" not in text and len(text) < 400
        assert not (tmp_path / "tokens" / "web.json").exists() or "tokens" not in kept(tmp_path)


@pytest.mark.thorough
async def test_a_renewal_that_is_refused_asks_for_a_new_sign_in(tmp_path: Path) -> None:
    with web_server(asks_sign_in=True) as web:
        await said(web, tmp_path)
        web.tokens.clear()
        web.refreshes.clear()
        with pytest.raises(CallFaultError) as raised:
            await said(web, tmp_path, interactive=False)
        assert raised.value.sign_in
        assert await said(web, tmp_path) == "hi"


def service_of(web: WebServer, folder: Path, told: list[str]) -> McpService:
    home, config = (
        Home(folder / "home"),
        server_config("web", McpServerSettings.model_validate({"url": f"{web.url}/mcp"})),
    )
    around = LaunchEnvironment(
        home=home,
        workspace=folder,
        files=folder / "files",
        sandbox=SandboxSettings.model_validate({}),
        variables=os.environ,
    )
    declared = DeclaredServer(config=config, origin="settings")
    return McpService([declared], around, SessionAnswers(), lambda _kind, text: told.append(text))


def is_starting(server: Server) -> bool:
    return server.health.state == "starting"


async def address_of(service: McpService) -> str:
    """Where a person has to sign in, as soon as the server has said so."""
    async with asyncio.timeout(60):
        while not (address := (await service.states())[0].sign_in):
            await asyncio.sleep(0.02)
    return address


@pytest.mark.thorough
async def test_a_session_signs_in_waits_for_the_person_and_signs_out(tmp_path: Path) -> None:
    with web_server(asks_sign_in=True) as web:
        service = service_of(web, tmp_path, [])
        try:
            with pytest.raises(ServerError, match="asks for a sign-in"):
                await service.call("web", "echo", {"text": "hi"})
            assert (await service.states())[0].health.state == "sign-in"
            signing = asyncio.create_task(service.sign_in("web"))
            address = await address_of(service)
            # While the person is away no clock runs.
            (server,) = [each for each in gc.get_objects() if isinstance(each, Server) and is_starting(each)]
            assert [timer.when() for timer in server._clocks._timers] == [None]
            with pytest.raises(ServerError, match="already"):
                await service.sign_in("web")
            with pytest.raises(ServerError, match="not where its sign-in ends"):
                await service.came_back("web", "http://evil.example/callback?code=1")
            await asyncio.to_thread(follow, address)
            await asyncio.wait_for(signing, 60)
            state = (await service.states())[0]
            assert (state.health.state, state.signed_in, state.sign_in) == ("ready", True, None)
            assert (await service.call("web", "echo", {"text": "hi"}))["content"] == "hi"
            assert await service.sign_out("web") and not await service.sign_out("web")
            with pytest.raises(ServerError, match="asks for a sign-in"):
                await service.call("web", "echo", {"text": "hi"})
        finally:
            await service.close()


@pytest.mark.thorough
async def test_a_sign_in_that_is_left_refused_or_brought_back_from_elsewhere(tmp_path: Path) -> None:
    with web_server(asks_sign_in=True) as web:
        service = service_of(web, tmp_path, [])
        try:
            signing = asyncio.create_task(service.sign_in("web"))
            await address_of(service)
            await service.leave_sign_in("web")
            with pytest.raises(ServerError, match="the sign-in was left"):
                await signing
            assert (await service.states())[0].sign_in is None
            web.broken["authorize"] = (302, {"error": "access_denied"})
            signing = asyncio.create_task(service.sign_in("web"))
            await asyncio.to_thread(follow, await address_of(service))
            with pytest.raises(ServerError, match="access_denied"):
                await signing
            web.broken.clear()
            signing = asyncio.create_task(service.sign_in("web"))
            address = await address_of(service)

            def ends_at() -> str:
                """What stands in the address line of a browser that cannot reach this machine."""
                opener = urllib.request.build_opener(Stays())
                with pytest.raises(urllib.error.HTTPError) as raised:
                    opener.open(address, timeout=20)
                with raised.value as page:
                    return page.headers["Location"]

            await service.came_back("web", f" {await asyncio.to_thread(ends_at)}\n")
            await asyncio.wait_for(signing, 60)
            assert (await service.states())[0].signed_in
        finally:
            await service.close()


class Stays(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        return None
