"""Agents that work for another one: sent, watched, paid for out of one purse, and stopped."""
