"""Start and end of the program: from the command line to the live application and back."""
