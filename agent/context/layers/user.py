"""The layer of notes about the person."""

from __future__ import annotations

from agent.context.layer import Layer
from agent.context.layers.memory import remembered

LAYER = Layer("user", 70, lambda facts: remembered(facts, {"user": "User"}))
