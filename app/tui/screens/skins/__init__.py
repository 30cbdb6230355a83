"""Skins: choosing and editing them, and the look of the running application."""
