"""Questions of the engine to the user. Each file `*_question.py` declares one kind as `QUESTION`."""
