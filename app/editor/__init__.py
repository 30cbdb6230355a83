"""The agent of an editor, over the Agent Client Protocol."""
