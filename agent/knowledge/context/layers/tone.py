"""The layer about the agent's tone, if the user chose one."""

from __future__ import annotations

from agent.knowledge.context.layer import Layer, Part

LAYER = Layer("tone", 40, lambda facts: [Part("Tone", f"# Tone\n{facts.tone}")] if facts.tone else [])
