"""Agents that work for another agent: starting them, following their progress and budget, stopping them."""
