"""Agents that work for another one: sent, watched, paid for out of one account, and stopped."""
