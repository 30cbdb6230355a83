"""Agents that work for another agent: sending, watching, paying and stopping them."""
