"""Choosing and editing skins, and applying them to the running application."""
