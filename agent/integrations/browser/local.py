"""A browser process on this machine, sandboxed, restricted to the proxy's network, controlled by pipes."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agent.core.home import Home
from agent.core.net.exchange import Decide, ProxyRefusal, outgoing_network
from agent.core.net.proxy import EgressProxy
from agent.integrations.browser.profile import BrowserProfile, Lifting
from agent.integrations.plugins.process import GrantedPaths, plugin_policy
from agent.safety.sandbox.filtered import PROXY_PORT, OpenedSpace, open_space
from agent.safety.sandbox.landlock import interpreter
from tools.kit.children import kill_child, start_child
from tools.results import ToolError
from tools.services.sandbox import NetworkSpace, Sandbox, SandboxLimits, SandboxPolicy, Wrapped

_LARGEST = 1 << 29
"""The maximum size of one message, in bytes."""


class PipeTransport:
    """A connection to a browser over two pipes.

    The object takes over the file descriptors `reading` and `writing`. Call `open` before the first use.
    """

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._reader = asyncio.StreamReader(limit=_LARGEST)
        self._transports: list[asyncio.BaseTransport] = []
        self._out: asyncio.WriteTransport | None = None

    async def open(self) -> None:
        """Connect both pipes to the event loop."""
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        into, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(self._reading, "rb", 0))
        out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(self._writing, "wb", 0))
        self._out = out
        self._transports = [into, out]

    def send(self, message: bytes) -> None:
        if self._out is None or self._out.is_closing():
            raise BrokenPipeError("the browser has gone")
        self._out.write(message + b"\0")

    async def receive(self) -> bytes:
        try:
            return (await self._reader.readuntil(b"\0"))[:-1]
        except asyncio.IncompleteReadError as error:
            raise EOFError from error
        except asyncio.LimitOverrunError as error:
            raise EOFError("a message of the browser is too long") from error

    def close(self) -> None:
        """Close both pipes, which also ends the browser."""
        for each in self._transports:
            with suppress(Exception):
                each.close()


class BrowserNetwork:
    """The network of one browser, which leads through a proxy that checks each connection.

    Open it before the browser starts and close it after the browser ended; both block.
    """

    def __init__(
        self,
        bubblewrap: str,
        decide: Decide,
        lifting: Lifting,
        secrets: Mapping[str, str],
        environ: Mapping[str, str],
        told: Callable[[ProxyRefusal], None],
    ) -> None:
        """Open the network. `bubblewrap` is the path of the bwrap program, or empty if it is not installed.

        Raises `ToolError`.
        """
        self._opened: OpenedSpace | None = open_space(bubblewrap) if bubblewrap else None
        self._proxy = EgressProxy(
            decide, secrets=secrets, on_refusal=told, network=outgoing_network(environ), lifting=lifting
        )
        self._proxy.start()
        if self._opened is not None:
            listener, self.port = self._opened.listeners[PROXY_PORT], PROXY_PORT
        else:
            listener = socket.create_server(("127.0.0.1", 0), backlog=256)
            self.port = listener.getsockname()[1]
        self._proxy.listen(listener)

    @property
    def space(self) -> NetworkSpace | None:
        """The network namespace that the browser joins; None if it uses the machine's own network."""
        return None if self._opened is None else self._opened.space

    def close(self) -> None:
        """Close the proxy with every connection, and the network namespace."""
        self._proxy.close()
        if self._opened is not None:
            self._opened.close()
            self._opened = None


_LIMITS = SandboxLimits(processes=2048, files=8192)
_ENDING = 5.0
# What a session of ours needs is in place before the browser: its pipes as 3 and 4, and nothing else open.
_STAGE = """
import os, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
except Exception:  # noqa: BLE001, RUF100 - the answer is complete; only the connection is lost
    pass
reading, writing = os.dup(int(sys.argv[1])), os.dup(int(sys.argv[2]))
high = [os.dup2(reading, 900), os.dup2(writing, 901)]
os.dup2(900, 3)
os.dup2(901, 4)
os.closerange(5, 1024)
os.execv(sys.argv[3], sys.argv[3:])
"""
_FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-client-side-phishing-detection",
    "--disable-domain-reliability",
    "--disable-dev-shm-usage",
    "--metrics-recording-only",
    "--no-pings",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    "--mute-audio",
    "--hide-scrollbars",
    "--enforce-webrtc-ip-permission-check",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,AutofillServerCommunication,"
    "CertificateTransparencyComponentUpdater,InterestFeedContentSuggestions,PaintHolding,HttpsUpgrades,"
    "LocalNetworkAccessChecks",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-background-timer-throttling",
    "--disable-popup-blocking",
    "--site-per-process",
    "--window-size=1280,800",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
    "--proxy-bypass-list=<-loopback>",
)


class LocalBrowser:
    """One browser process with its profile, network and pipes."""

    def __init__(
        self,
        program: str,
        sandbox: Sandbox,
        profile: BrowserProfile,
        network: BrowserNetwork,
        home: Home,
        workspace: Path,
        environ: Mapping[str, str],
    ) -> None:
        self._program = program
        self._sandbox = sandbox
        self._profile = profile
        self._network = network
        self._home = home
        self._workspace = workspace
        self._environ = environ
        self._process: asyncio.subprocess.Process | None = None
        self._transport: PipeTransport | None = None
        self._wrapped: Wrapped | None = None
        self._is_closed = False

    @property
    def folder(self) -> Path:
        """The profile folder, which has the same path inside the sandbox."""
        return self._profile.folder

    async def start(self) -> PipeTransport:
        """Start the browser; return the connection to it. Raises `ToolError`.

        Call it on the event loop's thread: the browser ends together with the thread that started it.
        """
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        transport = self._transport = PipeTransport(ours_in, ours_out)
        try:
            stage = [interpreter(), "-I", "-S", "-c", _STAGE, str(theirs_in), str(theirs_out)]
            wrapped = self._wrapped = await asyncio.to_thread(self._wrap, [*stage, *self._argv()])
            try:
                # What it writes to its streams is a lot and means nothing.
                self._process = await start_child(
                    wrapped.argv,
                    env=self._variables(wrapped),
                    cwd=self.folder,
                    fds=(theirs_in, theirs_out, *wrapped.fds),
                    stdout=asyncio.subprocess.DEVNULL,
                    private=True,
                )
            finally:
                wrapped.started()
        except OSError as error:
            raise ToolError(f"The browser {self._program} could not be started: {error.strerror}.") from error
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        await transport.open()
        return transport

    async def close(self) -> None:
        """End the browser and close its profile; a temporary one is removed. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._transport is not None:
            self._transport.close()
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(TimeoutError):
                # It writes what a lasting profile keeps.
                async with asyncio.timeout(_ENDING if self._profile.lasts else 0.3):
                    await process.wait()
            await kill_child(process)
        if self._wrapped is not None:
            await asyncio.to_thread(self._wrapped.ended)
        await asyncio.to_thread(self._network.close)
        await asyncio.to_thread(self._profile.close)

    def _argv(self) -> Sequence[str]:
        confined = self._sandbox.name == "bubblewrap"
        return [
            self._program,
            *_FLAGS,
            # Inside our boundary there are no further namespaces to be had; root has none of its own.
            *(["--no-sandbox"] if confined else []),
            f"--user-data-dir={self.folder / 'profile'}",
            f"--proxy-server=http://127.0.0.1:{self._network.port}",
            "about:blank",
        ]

    def _wrap(self, argv: Sequence[str]) -> Wrapped:
        if self._sandbox.name != "bubblewrap":
            return Wrapped(argv=list(argv))
        return self._sandbox.wrap(argv, self._policy())

    def _policy(self) -> SandboxPolicy:
        policy = plugin_policy(
            root=Path(self._program).resolve().parent,
            data=self.folder,
            tmp=self.folder / "tmp",
            paths=GrantedPaths(),
            workspace=self._workspace,
            user=Path.home(),
            home=self._home,
            environ=self._environ,
            space=self._network.space,
        )
        return replace(policy, limits=_LIMITS)

    def _variables(self, wrapped: Wrapped) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "LANG": "C.UTF-8" if sys.platform != "darwin" else "en_US.UTF-8",
            "TZ": self._environ.get("TZ", ""),
            "XDG_CONFIG_HOME": str(self.folder / "profile"),
            "XDG_CACHE_HOME": str(self.folder / "profile"),
            **wrapped.env,
        }
