"""What requests to models cost: written down for good, bounded for a session and a day, added up."""
