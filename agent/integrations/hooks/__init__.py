"""Hooks: the person's own commands that receive a session's events and may influence them."""
