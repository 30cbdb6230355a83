"""Questions of the engine to the person. Each file `*_question.py` is a kind of them, as `QUESTION`."""
