"""Foundations of all other packages: store, settings, home folder, messages, network access.

This package imports only `errors`, `events` and the tools.
"""
