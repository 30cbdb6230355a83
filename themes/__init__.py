"""Skins and personalities: the appearance of Hermes and the tone of its answers, as data."""
