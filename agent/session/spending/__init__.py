"""The cost of requests: written down for good, bounded for a session and a day, added up."""
