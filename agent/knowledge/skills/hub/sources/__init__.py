"""The kinds of places that skills come from, one a module."""
