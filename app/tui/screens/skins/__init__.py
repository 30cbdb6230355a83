"""Choosing and editing skins, and the look of the running application."""
