"""Deadlines of plugins, in seconds: one that does not keep to them is cut off."""

from __future__ import annotations

LOADING = 10.0
TOOL = 30.0
"""Also for commands and providers."""
HOOK = 5.0
