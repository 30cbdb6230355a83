"""The client that the conformance suite starts for each scenario: it does nothing but call `hermes mcp`.

The suite appends the address of its server, and names scenario, protocol and context in variables.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLLOW = Path(__file__).with_name("follow_redirects.py")
NAME = "conformance"
METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The document that the suite's authorization server takes for a client."""
HANDSHAKE_ONLY = ("json-schema-ref-no-deref",)


def main() -> int:
    """Play one scenario; the exit code is that of the last command."""
    scenario, address = os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory() as folder:
        return Player(Path(folder), scenario, address, context).play()


class Player:
    """One scenario in a home of its own."""

    def __init__(self, folder: Path, scenario: str, address: str, context: dict[str, Any]) -> None:
        self._scenario = scenario
        self._context = context
        version = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
        legacy = version.startswith("2025") or scenario in HANDSHAKE_ONLY
        self._protocol = "2025-11-25" if legacy else "auto"
        self._folder = folder
        oauth = {"client_metadata_url": METADATA_URL}
        if client := context.get("client_id"):
            oauth |= {"client_id": client, "client_secret_env": "CONFORMANCE_SECRET"}
        server = {"url": address, "connect_timeout": 60, "oauth": oauth}
        (folder / "home").mkdir()
        (folder / "home" / "config.yaml").write_text(json.dumps({"mcp_servers": {NAME: server}}))

    def play(self) -> int:
        """Do what the scenario is about."""
        match self._scenario:
            case "initialize" | "json-schema-ref-no-deref":
                return self._hermes("probe", NAME).returncode
            case "tools_call" | "request-metadata" | "http-standard-headers":
                return self._call("add_numbers", {"a": 5, "b": 3})
            case "sse-retry":
                return self._call("test_reconnection", {})
            case "elicitation-sep1034-client-defaults":
                return self._call("test_client_elicitation_defaults", {}, "defaults")
            case "http-invalid-tool-headers":
                return self._call_all()
            case "sep-2322-client-request-state":
                return self._call_all("defaults")
            case "http-custom-headers":
                calls = self._context.get("toolCalls") or []
                return max(self._call(each["name"], each.get("arguments") or {}) for each in calls)
            case _:
                return self._call_first()

    def _call_first(self) -> int:
        """Call a tool as somebody who has to sign in for that."""
        return self._call("test-tool", {})

    def _call_all(self, elicit: str = "decline") -> int:
        listed = self._hermes("probe", NAME)
        tools = json.loads(listed.stdout)["tools"] if listed.returncode == 0 else []
        return max((self._call(tool["name"], {}, elicit) for tool in tools), default=listed.returncode)

    def _call(self, tool: str, arguments: dict[str, Any], elicit: str = "decline") -> int:
        return self._hermes(
            "call", NAME, tool, "--args", json.dumps(arguments), "--elicit", elicit
        ).returncode

    def _hermes(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ},
            "HERMES_HOME": str(self._folder / "home"),
            "BROWSER": f"{sys.executable} {FOLLOW} %s",
            "CONFORMANCE_SECRET": str(self._context.get("client_secret") or ""),
        }
        start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import hermes_launcher; "
        start += "hermes_launcher.run_and_exit()"
        command = [sys.executable, "-c", start, "mcp", *arguments, "--protocol", self._protocol, "--json"]
        done = subprocess.run(
            command, env=environ, cwd=self._folder, capture_output=True, text=True, timeout=100, check=False
        )
        print(done.stdout, file=sys.stderr)
        print(done.stderr, file=sys.stderr)
        return done


if __name__ == "__main__":
    sys.exit(main())
