"""Real agents of other programs, sent over the Agent Client Protocol, all with one scripted model."""
