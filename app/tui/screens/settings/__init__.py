"""The settings screen, and applying changed settings."""
