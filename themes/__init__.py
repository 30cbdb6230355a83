"""Skins and personalities: how Hermes looks and speaks, as data."""
