"""Replay of recorded sessions: the same engine, fed with what models and tools answered then."""
