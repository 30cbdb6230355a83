"""Services that tools ask for by their type; the engine implements most of them."""
