"""The terminal: what comes from it, what goes to it."""
