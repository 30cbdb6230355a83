"""Agents that work for another agent: starting, watching, paying and stopping them."""
