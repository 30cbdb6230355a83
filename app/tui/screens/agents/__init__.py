"""Screens for kinds of agents, and for merging an agent's changes."""
