"""What the operating system keeps a command from, as far as the gate counts on it."""

from __future__ import annotations

from typing import Literal

from tools.sandbox import SandboxName

Confinement = Literal["none", "open", "closed"]
"""`none`: nothing is kept from it, or nothing is known. `open`: it changes nothing but the workspace,
but reaches the network. `closed`: nor does it reach the network, unless a person says so."""


def confinement(
    sandbox: SandboxName, network: Literal["on", "ask", "off"], *, elsewhere: bool = False
) -> Confinement:
    """What holds for commands in a sandbox; `elsewhere` are commands on another machine or in a container."""
    if sandbox == "none" or elsewhere:
        return "none"
    return "open" if network == "on" else "closed"
