"""Scheduled jobs: schedules, claims, runs, delivery and heartbeat."""
