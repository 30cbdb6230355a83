"""The surfaces of Hermes: command line, service, editor, terminal. Wiring only.

Imports go downwards only: main > cli > service, editor > tui.
"""
