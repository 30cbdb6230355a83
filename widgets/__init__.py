"""Panes and controls. They know events and skins, never the engine."""
