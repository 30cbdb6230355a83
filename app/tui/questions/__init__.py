"""Questions of the engine to the person. Each file `*_question.py` declares one kind as `QUESTION`."""
