"""The checks of `hermes doctor`, one function each."""
