"""Runs of Hermes in real terminals and multiplexers, outside the suite: see `__main__`."""
