"""Foundations of every other package: store, settings, home, messages, processes, the door to the network.

It knows `errors`, `events` and the tools only.
"""
