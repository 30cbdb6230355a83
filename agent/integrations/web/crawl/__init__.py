"""Following the links of a site: politely, within limits, to the disk."""
