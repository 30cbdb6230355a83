"""Messengers as user interfaces of sessions: platform adapters, delivery, and permission to talk.

See docs/gateway.md.
"""
