"""Training environments: episodes for a trainer, groups of rollouts, tokens, and a trainer of prompts."""
