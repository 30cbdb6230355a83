"""Messengers as heads of sessions: adapters of platforms, delivery, and who may talk. See docs/gateway.md."""
