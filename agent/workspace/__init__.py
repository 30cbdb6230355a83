"""The project folder: what changes in it, who changed it, and taking it back. It knows no model."""
