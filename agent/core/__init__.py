"""Foundations of all other packages: store, settings, home, messages, processes, network access.

It imports only `errors`, `events` and the tools.
"""
