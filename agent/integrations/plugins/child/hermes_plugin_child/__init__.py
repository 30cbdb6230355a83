"""The program that runs the code of a plugin. It needs only the standard library."""
