"""Web access for an agent: searching, reading pages, following links. All requests go through `WebClient`."""
