"""The layer of notes about the user."""

from __future__ import annotations

from agent.knowledge.context.layer import Layer
from agent.knowledge.context.layers.memory import remembered

LAYER = Layer("user", 70, lambda facts: remembered(facts, {"user": "User"}))
