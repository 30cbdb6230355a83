"""The layer of instructions for this session only."""

from __future__ import annotations

from agent.knowledge.context.layer import Layer, Part

LAYER = Layer("session", 85, lambda facts: [Part("Session", f"# Session\nBegan on: {facts.date}")])
