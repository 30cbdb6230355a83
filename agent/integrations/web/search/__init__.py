"""Web search: services in order of preference, with results in one common form."""
