"""Training: episodes for an external trainer, groups of rollouts, token ids, and training of prompts."""
