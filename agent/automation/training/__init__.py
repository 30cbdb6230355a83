"""Training environments: episodes for a trainer, groups of rollouts, tokens, a trainer of prompts."""
