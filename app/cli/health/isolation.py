"""Checks of the operating system's isolation. Each one is tried, not looked up."""

from __future__ import annotations

import ctypes
import shutil
import sys
from pathlib import Path

from app.cli.health.check import HealthFinding, HealthSubject, output_of

_LANDLOCK_CREATE_RULESET = 444
"""The number of the system call, the same on every architecture."""
_LANDLOCK_VERSION = 1
"""Flag that asks for the version of the interface instead of making a ruleset."""

_UNSHARE_USER = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)"


def sandbox(subject: HealthSubject) -> HealthFinding:
    """Check that bubblewrap runs, or at least that Landlock is available."""
    if not sys.platform.startswith("linux"):
        return HealthFinding(
            "sandbox", "warn", f"none is known for {sys.platform}", "Approve commands with care."
        )
    wrapped, why = _bubblewrap(subject)
    abi = landlock_abi()
    spaces = "allowed" if _user_namespaces(subject) else "not allowed"
    landlock = f"Landlock version {abi}" if abi else "no Landlock"
    from agent.safety.sandbox.opening import probe

    detail = f"commands run in: {probe('auto').name}; {why}; user namespaces {spaces}; {landlock}"
    if wrapped:
        return HealthFinding("sandbox", "ok", detail)
    return HealthFinding("sandbox", "warn", detail, "Install bubblewrap, or allow it user namespaces.")


def network(subject: HealthSubject) -> HealthFinding:
    """Check that commands have the network access the settings ask for."""
    from agent.core.config.loader import load
    from agent.safety.sandbox.opening import probe, try_filter

    chosen = load(subject.home, subject.environ, subject.workspace).settings.sandbox
    if probe(chosen.mode).name == "none":
        return HealthFinding("network", "warn", "commands reach every host, as nothing keeps them in")
    if chosen.network != "filtered":
        return HealthFinding("network", "ok", f"sandbox.network: {chosen.network}")
    if why := try_filter(chosen.mode):
        detail = f"cannot be filtered: {why}; commands ask for the network instead"
        return HealthFinding("network", "warn", detail, "Install bubblewrap and util-linux.")
    return HealthFinding("network", "ok", "commands reach listed hosts; others ask, one at a time")


def browser(subject: HealthSubject) -> HealthFinding:
    """Check that a browser is installed, starts, and can be confined."""
    from agent.core.config.loader import load
    from tools.browser.host import can_confine, find_browser

    chosen = load(subject.home, subject.environ, subject.workspace).settings.browser
    if chosen.backend in ("auto", "cdp") and chosen.cdp_url:
        return HealthFinding("browser", "ok", f"a running one, at {chosen.cdp_url}; it is not confined")
    if chosen.backend == "browserbase":
        return HealthFinding("browser", "ok", "one of Browserbase; it is not confined")
    program = find_browser(chosen.program)
    if not program:
        named = f"browser.program names {chosen.program}, which does not start" if chosen.program else ""
        mend = "apt-get install chromium   (or Google Chrome, or set browser.cdp_url)"
        return HealthFinding("browser", "warn", named or "none is installed; pages cannot be used", mend)
    if not can_confine():
        detail = f"{program} is not started as root without bubblewrap"
        return HealthFinding("browser", "warn", detail, "apt-get install bubblewrap")
    try:
        code, said = output_of([program, "--version"], subject.program_time)
    except OSError as error:
        return HealthFinding("browser", "warn", f"{program} does not start: {error.strerror}")
    if code:
        return HealthFinding("browser", "warn", f"{program} fails with exit code {code}")
    return HealthFinding("browser", "ok", said.strip().splitlines()[0][:100] if said.strip() else program)


def _bubblewrap(subject: HealthSubject) -> tuple[bool, str]:
    program = shutil.which("bwrap")
    if program is None:
        return False, "bubblewrap is not installed"
    argv = [program, "--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "--new-session", "true"]
    try:
        code, said = output_of(argv, subject.program_time)
    except OSError as error:
        return False, f"bubblewrap does not start ({error.strerror})"
    if code:
        return (
            False,
            f"bubblewrap does not work here ({said.splitlines()[-1] if said else f'exit code {code}'})",
        )
    return True, "bubblewrap works"


def landlock_abi() -> int:
    """Return the version of the kernel's Landlock interface; 0 if there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(_LANDLOCK_VERSION)
    )
    return max(version, 0)


def _user_namespaces(subject: HealthSubject) -> bool:
    if not Path("/proc/self/ns/user").exists():
        return False
    code, _ = output_of([sys.executable, "-I", "-S", "-c", _UNSHARE_USER], subject.program_time)
    return code == 0
