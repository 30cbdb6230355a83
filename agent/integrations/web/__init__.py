"""The web for an agent: searching, reading pages, following links. Everything goes through the `Door`."""
