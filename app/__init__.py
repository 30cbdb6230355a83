"""The user interfaces of Hermes: command line, service, editor, terminal. They only connect its parts.

Imports go downwards only: main > cli > service, editor > tui.
"""
