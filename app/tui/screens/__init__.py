"""One module per screen, its stylesheet beside it."""
