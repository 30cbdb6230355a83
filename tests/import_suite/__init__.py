"""Sessions that other agents' real programs make, imported and compared with what went over the wire."""
