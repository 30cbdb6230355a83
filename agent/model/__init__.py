"""Model access: one request in, one stream of typed deltas out. It does not depend on a project folder."""
