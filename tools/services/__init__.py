"""Services that tools ask for, as protocols; the engine implements them."""
