"""Panes and controls. They depend on events and skins, never on the engine."""
