"""A real headless Chromium over its own protocol, for pages of ours. Tests skip loudly without one."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pytest
from websockets.sync.client import connect

PATIENCE = 20.0


def found() -> str:
    """The program. Skips the test where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("there is no Chromium on this machine: the page was not tried in a browser")


def version() -> int:
    """Its major version. Skips the test where there is none."""
    told = subprocess.run([found(), "--version"], capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"(\d+)\.\d", told)[0])


class Browser:
    """One page of one size."""

    def __init__(self, folder: Path, width: int = 1200, height: int = 800, *options: str) -> None:
        self._folder = folder
        self._size = f"{width},{height}"
        self._options = options
        self._numbers = itertools.count(1)
        self.faults: list[str] = []
        """What the page complained about."""

    def __enter__(self) -> Self:
        # Only pages of ours are opened; as root Chromium has no boundary of its own.
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            [
                *(found(), "--headless=new", "--remote-debugging-port=0", "--disable-gpu", *root),
                *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
                *(f"--user-data-dir={self._folder}", f"--window-size={self._size}", *self._options),
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        port_file = self._folder / "DevToolsActivePort"
        deadline = time.monotonic() + PATIENCE
        while not (port_file.exists() and port_file.read_text().count("\n")):
            assert time.monotonic() < deadline, "Chromium did not start"
            time.sleep(0.05)
        port, path = port_file.read_text().split("\n")[:2]
        self._socket = connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None, legacy=True)
        target = self._call("Target.getTargets", session="")["targetInfos"]
        page = next(each for each in target if each["type"] == "page")
        self._session = ""
        self._session = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait()

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        frame: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session is None and self._session:
            frame["sessionId"] = self._session
        self._socket.send(json.dumps(frame))
        while True:
            told = json.loads(self._socket.recv(timeout=PATIENCE))
            if told.get("id") == number:
                assert "error" not in told, told
                return told["result"]
            self._hear(told)

    def _hear(self, told: dict[str, Any]) -> None:
        match told.get("method"):
            case "Runtime.exceptionThrown":
                self.faults.append(json.dumps(told["params"]["exceptionDetails"])[:500])
            case "Log.entryAdded" if told["params"]["entry"]["level"] == "error":
                self.faults.append(told["params"]["entry"]["text"])
            case _:
                pass

    def allow(self, permission: str, origin: str) -> None:
        """Grant a site what it would ask the person for."""
        self._call("Browser.grantPermissions", origin=origin, permissions=[permission], session="")

    def install_faults(self) -> list[str]:
        """What keeps the page from being installed as an app."""
        found = self._call("Page.getInstallabilityErrors")["installabilityErrors"]
        return [each["errorId"] for each in found]

    def open(self, url: str) -> None:
        """Go to an address."""
        self._call("Page.navigate", url=url)

    def delay(self, milliseconds: int) -> str:
        """Let every request of the pages opened from now on take longer. What `undelay` takes."""
        script = f"""{{ const sent = window.fetch; window.fetch = async (...request) => {{
            await new Promise((done) => setTimeout(done, {milliseconds})); return sent(...request); }}; }}"""
        return self._call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]

    def undelay(self, identifier: str) -> None:
        """Let requests of pages opened from now on take what they take."""
        self._call("Page.removeScriptToEvaluateOnNewDocument", identifier=identifier)

    def run(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        told = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def until(self, script: str) -> Any:
        """The value of an expression once it is true."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self._now(f"Boolean({script})")):
            assert time.monotonic() < deadline, f"never true: {script}\n{self.faults}\n{self.text()}"
            time.sleep(0.03)
        return value

    def _now(self, script: str) -> Any:
        """The value of an expression; None while one page gives way to the next."""
        try:
            return self.run(script)
        except AssertionError as error:
            if "navigated or closed" in str(error) or "Cannot find context" in str(error):
                return None
            raise

    def text(self) -> str:
        """What stands on the page."""
        return self.run("document.body.innerText")

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self._call("Input.insertText", text=text)

    def key(self, name: str, **more: Any) -> None:
        """Press a key."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "KeyU": 85, "KeyY": 89}
        for kind in ("keyDown", "keyUp"):
            more_text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            self._call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=name,
                windowsVirtualKeyCode=codes[name],
                **more_text,
                **more,
            )

    def size(self, width: int, height: int, *, dark: bool = True, phone: bool = False) -> None:
        """Another size, and dark or light."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        scheme = "dark" if dark else "light"
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path: Path) -> None:
        """A PNG of what is seen."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))
