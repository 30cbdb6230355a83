"""Messengers as user interfaces of sessions: platform adapters, delivery, and who may write to Hermes.

See docs/gateway.md.
"""
