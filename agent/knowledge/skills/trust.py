"""The origin of a skill, and what may therefore be installed."""

from __future__ import annotations

from typing import Literal

from agent.knowledge.skills.scanner import Verdict

Trust = Literal["builtin", "trusted", "community", "agent"]
Decision = Literal["yes", "no", "ask"]

TRUSTED = frozenset({"openai/skills", "anthropics/skills", "huggingface/skills", "nvidia/skills"})
"""Repositories whose owners answer for what is in them, in lower case."""

POLICY: dict[Trust, dict[Verdict, Decision]] = {
    "builtin": {"safe": "yes", "caution": "yes", "dangerous": "yes"},
    "trusted": {"safe": "yes", "caution": "yes", "dangerous": "no"},
    "community": {"safe": "yes", "caution": "no", "dangerous": "no"},
    "agent": {"safe": "yes", "caution": "yes", "dangerous": "ask"},
}


def trust_of(source: str) -> Trust:
    """The trust in a source: `official`, `agent`, `owner/repository[/path]`, an address or a folder."""
    name = source.strip()
    lower = name.lower()
    if lower in ("official", "builtin", "bundled") or lower.startswith(("official/", "builtin/")):
        return "builtin"
    if lower in ("agent", "agent-created", "agent-made"):
        return "agent"
    for prefix in ("github:", "skills-sh/", "https://github.com/", "http://github.com/", "github.com/"):
        if lower.startswith(prefix):
            lower = lower.removeprefix(prefix)
            break
    else:
        if "://" in lower or lower.startswith(("/", ".", "~")):
            return "community"
    parts = lower.split("/")
    if any(part in ("", ".", "..") for part in parts[:-1]):
        return "community"
    repository = "/".join(parts[:2]).removesuffix(".git")
    return "trusted" if repository in TRUSTED else "community"


def decide(trust: Trust, verdict: Verdict, *, force: bool = False) -> Decision:
    """Whether a skill may be installed. `force` lifts a caution, and a danger only of what the agent made."""
    decision = POLICY[trust][verdict]
    if not force or decision == "yes":
        return decision
    return "yes" if verdict != "dangerous" or trust == "agent" else decision
