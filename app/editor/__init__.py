"""Hermes as the agent of an editor, over the Agent Client Protocol."""
