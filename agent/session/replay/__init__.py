"""Replay of recorded sessions: the same engine, fed with the recorded answers of models and tools."""
