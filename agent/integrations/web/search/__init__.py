"""Searching: services in order, what they say in one form."""
