"""Kinds of agents, and merging what an agent changed."""
