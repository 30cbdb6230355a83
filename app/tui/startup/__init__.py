"""Start and end of the program: from the command line to the full screen and back."""
