"""Services that tools use, as protocols; the engine implements them."""
