"""A browser for the model: pages as text with references to act on, over the DevTools protocol."""
