"""Questions from the engine to the user. Each file `*_question.py` declares its kinds as `QUESTIONS`."""
