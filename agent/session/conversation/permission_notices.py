"""Notices about the files of permissions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.core.messages import Mode
from agent.events import ModeChanged, Noticed
from agent.safety.gate import Gate
from agent.safety.permissions.policy import PermissionPolicy
from agent.session.stream import EventStream


def permission_problems(policy: PermissionPolicy) -> list[str]:
    """What the person should know about the files of permissions."""
    problems = [str(problem) for problem in policy.problems]
    if problems:
        problems.append(
            "Until that is mended nothing in the file allows anything; what it denies and asks still counts."
        )
    if policy.project == "untrusted":
        problems.append(
            "This project brings permissions; it is not trusted, so only what they deny or ask counts. "
            "See `hermes config trust`."
        )
    return problems


def policy_publisher(stream: EventStream, gate: Gate) -> Callable[[PermissionPolicy], None]:
    """Tells the person that the permissions were read again, and what is wrong with them now."""
    told = _Told(gate.policy, gate.mode)

    def tell(policy: PermissionPolicy) -> None:
        if policy is told.policy:
            return
        known, told.policy = permission_problems(told.policy), policy
        for problem in permission_problems(policy):
            if problem not in known:
                stream.emit(Noticed(kind="warning", text=problem))
        if gate.mode != told.mode:
            told.mode = gate.mode
            stream.emit(ModeChanged(mode=told.mode))

    return tell


@dataclass(slots=True)
class _Told:
    """What the person knows of the permissions."""

    policy: PermissionPolicy
    mode: Mode
