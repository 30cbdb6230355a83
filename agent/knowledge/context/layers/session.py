"""The layer that gives the date on which the session began."""

from __future__ import annotations

from agent.knowledge.context.layer import Layer, Part

LAYER = Layer("session", 85, lambda facts: [Part("Session", f"# Session\nBegan on: {facts.date}")])
