"""Model access: one request in, one stream of typed deltas out. It knows no project folder."""
