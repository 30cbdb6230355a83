"""Seeing, drawing, speaking, hearing, and reaching devices and people."""
