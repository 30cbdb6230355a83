"""The program in which the code of a plugin runs. It needs nothing but the standard library."""
