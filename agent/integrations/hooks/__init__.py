"""Hooks: the user's own commands that receive a session's events and may influence them."""
