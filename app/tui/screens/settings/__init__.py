"""The settings screen, and putting changes into effect."""
