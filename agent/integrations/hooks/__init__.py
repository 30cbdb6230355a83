"""Hooks: a person's own commands that hear of what happens in a session, and may influence it."""
